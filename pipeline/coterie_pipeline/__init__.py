"""The pipeline that turns journals into tables, a report and what-if answers."""
