-- The log. Its one rule is that rows are added and never changed: the role of the
-- service may not, and triggers refuse even the owner of the tables.

-- log_head has one row. Whoever appends holds its lock until commit, so that
-- positions become visible in their own order: a reader that has seen position n
-- will never find a new one below it. A sequence could not promise that.
create table {{.schema}}.log_head (
  one      boolean primary key default true check (one),
  position bigint  not null
);
insert into {{.schema}}.log_head (position) values (0);

create table {{.schema}}.heads (
  stream  text   primary key,
  version bigint not null,
  hash    bytea  not null check (length(hash) = 32)
);

-- data holds canonical JSON, byte for byte as hashed. jsonb would reorder its keys.
create table {{.schema}}.events (
  position    bigint      primary key check (position > 0),
  stream      text        not null,
  version     bigint      not null check (version > 0),
  id          uuid        not null unique,
  type        text        not null,
  time        timestamptz not null,
  actor       text        not null,
  command     text        not null,
  correlation text        not null,
  data        bytea       not null,
  hash        bytea       not null check (length(hash) = 32),
  unique (stream, version)
);

create function {{.schema}}.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'the log is append-only: % of % is refused', tg_op, tg_table_name
    using errcode = 'object_not_in_prerequisite_state'; -- 55000
end $$;

create trigger append_only before update or delete on {{.schema}}.events
  for each row execute function {{.schema}}.refuse_change();
create trigger append_only_truncate before truncate on {{.schema}}.events
  for each statement execute function {{.schema}}.refuse_change();

grant usage on schema {{.schema}} to mystery_app;
grant select on {{.schema}}.schema_version to mystery_app;
grant select, insert on {{.schema}}.events to mystery_app;
grant select, insert, update on {{.schema}}.heads to mystery_app;
grant select, update on {{.schema}}.log_head to mystery_app;
