# Transactions, one of which is rolled back, with both journals; another process reads meanwhile.
set -eu
for mode in delete wal; do
    db=$mode.db
    sqlite3 "$db" "pragma journal_mode=$mode; create table t(id integer primary key, text, number); create index i on t(number);"
    sqlite3 "$db" <<'SQL'
begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
insert into t select i, 'text of ' || i, i * 7 % 1000 from n;
commit;
begin;
delete from t;
rollback;
begin;
update t set text = 'changed' where number < 100;
savepoint s;
delete from t where id > 10;
rollback to s;
commit;
select count(*), sum(number) from t;
SQL
    # Readers, while a writer goes on.
    sqlite3 "$db" "pragma busy_timeout=20000; begin immediate; insert into t select id + 10000, text, number from t; commit;" >/dev/null &
    writer=$!
    for n in 1 2 3 4; do
        sqlite3 "$db" "pragma busy_timeout=20000; select count(*) in (5000, 10000) from t;"
    done
    wait "$writer"
    sqlite3 "$db" "select count(*), sum(number), count(distinct text) from t;"
    sqlite3 "$db" "pragma integrity_check;"
    sqlite3 "$db" .dump | cksum
    sqlite3 "$db" "vacuum into '$mode.copy';"
    sqlite3 "$mode.copy" "pragma integrity_check; select count(*) from t;"
    sqlite3 "$db" ".backup $mode.backup"
    sqlite3 "$mode.backup" .dump | cksum
done
