#!/bin/sh
# Starts PostgreSQL; the first time, makes the database POSTGRES_DB and runs the scripts in
# /docker-entrypoint-initdb.d, as the official image does.
set -eu

run_sql() {
    psql --quiet --no-psqlrc --set ON_ERROR_STOP=1 --username postgres "$@"
}

make_cluster() {
    initdb --username=postgres --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust \
        --auth-host=scram-sha-256 --encoding=UTF8 --pgdata="$new" > /dev/null
    echo 'host all all all scram-sha-256' >> "$new/pg_hba.conf"
    # Not yet for others.
    pg_ctl --pgdata="$new" --options="-c listen_addresses=''" --silent --wait start
    run_sql --dbname postgres --command "CREATE DATABASE \"$POSTGRES_DB\""
    for script in /docker-entrypoint-initdb.d/*.sql; do
        run_sql --dbname "$POSTGRES_DB" --file "$script"
    done
    pg_ctl --pgdata="$new" --mode=fast --silent --wait stop
}

if [ ! -e "$PGDATA" ]; then
    # What was broken off is made anew.
    new=$PGDATA.new
    rm -rf "$new"
    mkdir -p "$new"
    make_cluster
    mv "$new" "$PGDATA"
fi
exec "$@" -c 'listen_addresses=*'
