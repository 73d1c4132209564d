-- What keeps callers and hosts from being overrun. All of it may be deleted at any
-- time; what was counted is then forgotten.

-- Requests of strangers are counted in buckets: those whose keys hash alike share
-- one, so the table has 65,536 rows for each limit at most, whoever comes. Nobody
-- outside can tell which keys do, for the hash is salted.
create table {{.schema}}.buckets (
  name  text          not null, -- of the limit
  n     int           not null check (n between 0 and 65535),
  times timestamptz[] not null default '{}', -- of the requests that count, no more than the limit
  primary key (name, n)
);
create table {{.schema}}.bucket_salt (
  one  boolean primary key default true check (one),
  salt bytea   not null
);
insert into {{.schema}}.bucket_salt (salt) values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- What was fetched lately, one row per host that the owner of an agent has signed
-- for. pending: somebody is asking.
create table {{.schema}}.fetches (
  key     text        primary key,
  asked   timestamptz not null,
  pending boolean     not null default true,
  answer  bytea
);

-- The tasks that a host may be sent on a day (a number of days since 1970-01-01),
-- whatever consent they belong to.
create table {{.schema}}.turns (
  host  text   not null,
  day   bigint not null,
  shops text[] not null,
  primary key (host, day)
);

grant select, insert, update, delete on {{.schema}}.buckets to mystery_app;
grant select on {{.schema}}.bucket_salt to mystery_app;
grant select, insert, update, delete on {{.schema}}.fetches to mystery_app;
grant select, insert, update, delete on {{.schema}}.turns to mystery_app;
