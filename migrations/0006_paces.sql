-- What keeps tasks for one host apart, whatever consents they belong to. As with the
-- other limits, all of it may be deleted at any time.

create table {{.schema}}.paces (
  host  text        primary key,
  shop  text        not null default '', -- the task that had the last turn
  taken timestamptz not null default '-infinity', -- when it had it
  rests timestamptz not null default '-infinity'  -- the host asked to be left alone until then
);

-- Tasks that were due and had to wait for their host. They stay for a day, as they say
-- why a task was missed.
create table {{.schema}}.waiting (
  shop  text        primary key,
  host  text        not null,
  due   timestamptz not null, -- the moment it was planned for
  ends  timestamptz not null, -- when it is too late for it
  again timestamptz not null  -- when it was told to ask again
);
create index on {{.schema}}.waiting (host, due);

grant select, insert, update, delete on {{.schema}}.paces, {{.schema}}.waiting to mystery_app;
