-- Roles for Coterie's store in PostgreSQL.  Run it once, in the store's database, as a role that may
-- create roles and schemas:
--
--     psql --dbname coterie --file postgresql-roles.sql
--
-- and then give both roles a password, or an entry in pg_hba.conf.

BEGIN;

-- Makes the tables, and changes them when a new version needs that.
CREATE ROLE coterie_migrate LOGIN;

-- So that a role that is no superuser may give it a schema.
GRANT coterie_migrate TO CURRENT_USER;

-- What nodes run as: it reads and writes rows, and can change no table.
CREATE ROLE coterie_node LOGIN;

CREATE SCHEMA coterie AUTHORIZATION coterie_migrate;
GRANT USAGE ON SCHEMA coterie TO coterie_node;

-- For the tables that coterie_migrate will make.
ALTER DEFAULT PRIVILEGES FOR ROLE coterie_migrate IN SCHEMA coterie
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO coterie_node;

COMMIT;
