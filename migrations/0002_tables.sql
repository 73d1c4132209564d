-- What lives beside the log and may change.

-- A sender holds the programme's row and the row of its consent FOR SHARE over
-- the write of a request, and looks at those of the scopes that its task falls
-- under. Revoking takes the row of the consent FOR UPDATE, pausing that of the
-- programme, whatever the scope. See package commands/tables.
create table {{.schema}}.gate (
  key       text        primary key, -- a consent id, 'programme', or a scope that was ever paused
  open      boolean     not null,
  closed_at timestamptz,
  check (open = (closed_at is null))
);
insert into {{.schema}}.gate (key, open) values ('programme', true);

-- Rows of the gate that someone waits to close. New senders heed this and hold
-- back, for PostgreSQL lets them overtake a waiting FOR UPDATE for ever.
create table {{.schema}}.gate_closing (
  key   text        primary key,
  until timestamptz not null
);

-- Bytes that came from outside and that events only commit to. Deleting a row is
-- how they are erased.
create table {{.schema}}.bodies (
  key        text        primary key,
  salt       bytea,
  bytes      bytea       not null,
  created_at timestamptz not null default now()
);

create table {{.schema}}.leases (
  name   text        primary key,
  holder text        not null,
  until  timestamptz not null
);

grant select, insert, update on {{.schema}}.gate to mystery_app;
grant select, insert, update, delete on {{.schema}}.gate_closing to mystery_app;
grant select, insert, delete on {{.schema}}.bodies to mystery_app;
grant select, insert, update, delete on {{.schema}}.leases to mystery_app;

-- The read models belong to the service: it creates their tables, and rebuilds
-- them in another schema that then takes this one's name.
create schema {{.schema}}_rm authorization mystery_app;
do $$ begin
  execute format('grant create on database %I to mystery_app', current_database());
end $$;
