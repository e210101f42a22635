//! The nth write of all fails, once: for tests that walk through every write of a workflow.

use sqlx::{AssertSqlSafe, PgPool};

/// Counts from now on what `writes` name (`insert or update on orders`), and lets number `number` of them fail as a
/// conflict would, with its transaction.
///
/// # Panics
/// When the database refuses.
pub async fn arm(pool: &PgPool, writes: &[&str], number: i64) {
    for statement in [
        "create sequence if not exists writes",
        "alter sequence writes restart",
        "create table if not exists failing (write bigint not null)",
        "delete from failing",
        // Sequences forget nothing when a transaction is rolled back, so that the same write does not fail again.
        "create or replace function fail_one() returns trigger language plpgsql as $$
         begin
             if nextval('writes') = (select write from failing) then
                 raise exception 'a write fails' using errcode = '40001';
             end if;
             return null;
         end $$",
    ] {
        sqlx::query(statement).execute(pool).await.expect(statement);
    }
    for on in writes {
        let statement =
            format!("create or replace trigger fail_one after {on} for each row execute function fail_one()");
        sqlx::query(AssertSqlSafe(statement)).execute(pool).await.expect(on);
    }
    sqlx::query("insert into failing values ($1)").bind(number).execute(pool).await.expect("armed");
}

/// How many there were since; 1 may stand for none.
///
/// # Panics
/// When the database refuses.
pub async fn count(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select last_value from writes").fetch_one(pool).await.expect("a count")
}

/// Whatever has not failed by now does not.
///
/// # Panics
/// When the database refuses.
pub async fn disarm(pool: &PgPool) {
    sqlx::query("delete from failing").execute(pool).await.expect("disarmed");
}
