-- One database a service, owned by a role that can reach no other: a service that reads its neighbour's
-- tables is a fault in design, and here it cannot connect to try. Tables come from each service's own
-- migrations. Runs once, by psql, when the data folder is first made.
\getenv password SERVICE_DB_PASSWORD

select format(statement, name, :'password')
from (values ('order'), ('inventory'), ('payment'), ('coupon'), ('recommendation'), ('console')) as service (name),
     (values (1, 'create role %1$I login password %2$L'),
             (2, 'create database %1$I owner %1$I'),
             (3, 'revoke connect, temporary on database %1$I from public')) as step (at, statement)
order by name, at
\gexec
