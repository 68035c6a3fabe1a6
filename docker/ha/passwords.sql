-- Gives the roles of postgresql-roles.sql their passwords: psql reads them from files, so that no
-- command line shows them.
\set migrate `cat /run/passwords/coterie_migrate`
\set node `cat /run/passwords/coterie_node`
ALTER ROLE coterie_migrate PASSWORD :'migrate';
ALTER ROLE coterie_node PASSWORD :'node';
