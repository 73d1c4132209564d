-- The public log: a Merkle tree over the public records, and its checkpoints. See
-- package projections/publiclog. The tree grows and nothing in it changes; as for
-- the log itself, triggers refuse even the owner of the tables.

-- tree_head has one row, and whoever extends the tree holds its lock until commit.
create table {{.schema}}.tree_head (
  one      boolean primary key default true check (one),
  vkey     text,            -- of the key that signs; set once
  position bigint not null, -- how far the ledger has been read
  size     bigint not null check (size >= 0),
  root     bytea  not null check (length(root) = 32)
);
insert into {{.schema}}.tree_head (position, size, root) values (0, 0, sha256(''));

create function {{.schema}}.tree_head_grows() returns trigger language plpgsql as $$
begin
  if new.size < old.size or new.position < old.position
    or (new.size = old.size and new.root <> old.root)
    or (old.vkey is not null and new.vkey is distinct from old.vkey)
  then
    raise exception 'the public log only grows: % of % is refused', tg_op, tg_table_name
      using errcode = 'object_not_in_prerequisite_state'; -- 55000
  end if;
  return new;
end $$;
create trigger only_grows before update on {{.schema}}.tree_head
  for each row execute function {{.schema}}.tree_head_grows();
create trigger append_only before delete on {{.schema}}.tree_head
  for each row execute function {{.schema}}.refuse_change();
create trigger append_only_truncate before truncate on {{.schema}}.tree_head
  for each statement execute function {{.schema}}.refuse_change();

-- The last record that was read of each stream, public or sealed: the next one
-- must follow it.
create table {{.schema}}.tree_streams (
  stream  text   primary key,
  version bigint not null,
  hash    bytea  not null check (length(hash) = 32)
);

create function {{.schema}}.tree_streams_grow() returns trigger language plpgsql as $$
begin
  if new.stream <> old.stream or new.version <= old.version then
    raise exception 'the public log only grows: % of % is refused', tg_op, tg_table_name
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  return new;
end $$;
create trigger only_grows before update on {{.schema}}.tree_streams
  for each row execute function {{.schema}}.tree_streams_grow();
create trigger append_only before delete on {{.schema}}.tree_streams
  for each row execute function {{.schema}}.refuse_change();
create trigger append_only_truncate before truncate on {{.schema}}.tree_streams
  for each statement execute function {{.schema}}.refuse_change();

-- The leaves, as they are served: the canonical form of each public record, and the
-- two hashes beside it.
create table {{.schema}}.tree_leaves (
  index   bigint primary key check (index >= 0),
  stream  text   not null,
  version bigint not null,
  record  bytea  not null, -- what is hashed, behind prev
  prev    bytea  not null check (length(prev) = 32),
  hash    bytea  not null check (length(hash) = 32),
  unique (stream, version)
);
create trigger append_only before update or delete on {{.schema}}.tree_leaves
  for each row execute function {{.schema}}.refuse_change();
create trigger append_only_truncate before truncate on {{.schema}}.tree_leaves
  for each statement execute function {{.schema}}.refuse_change();

-- Tiles of height 8 (C2SP tlog-tiles). Hashes do not compress.
create table {{.schema}}.tree_tiles (
  level  smallint not null check (level between 0 and 7),
  n      bigint   not null check (n >= 0),
  hashes bytea    not null check (length(hashes) between 32 and 8192 and length(hashes) % 32 = 0),
  primary key (level, n)
);
alter table {{.schema}}.tree_tiles alter column hashes set storage external;

create function {{.schema}}.tree_tile_grows() returns trigger language plpgsql as $$
begin
  if new.level <> old.level or new.n <> old.n
    or substring(new.hashes from 1 for length(old.hashes)) <> old.hashes
  then
    raise exception 'the public log only grows: % of % is refused', tg_op, tg_table_name
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  return new;
end $$;
create trigger only_grows before update on {{.schema}}.tree_tiles
  for each row execute function {{.schema}}.tree_tile_grows();
create trigger append_only before delete on {{.schema}}.tree_tiles
  for each row execute function {{.schema}}.refuse_change();
create trigger append_only_truncate before truncate on {{.schema}}.tree_tiles
  for each statement execute function {{.schema}}.refuse_change();

-- What was ever signed: one root for each size. A note stands here before anybody is
-- shown it.
create table {{.schema}}.tree_checkpoints (
  size      bigint      primary key check (size > 0),
  root      bytea       not null check (length(root) = 32),
  note      bytea       not null,
  signed_at timestamptz not null
);
create trigger append_only before update or delete on {{.schema}}.tree_checkpoints
  for each row execute function {{.schema}}.refuse_change();
create trigger append_only_truncate before truncate on {{.schema}}.tree_checkpoints
  for each statement execute function {{.schema}}.refuse_change();

-- What was published of it: the same note, with the cosignatures of witnesses.
create table {{.schema}}.tree_published (
  size bigint primary key references {{.schema}}.tree_checkpoints,
  note bytea  not null
);
create trigger append_only before update or delete on {{.schema}}.tree_published
  for each row execute function {{.schema}}.refuse_change();
create trigger append_only_truncate before truncate on {{.schema}}.tree_published
  for each statement execute function {{.schema}}.refuse_change();

grant select, update on {{.schema}}.tree_head to mystery_app;
grant select, insert, update on {{.schema}}.tree_streams, {{.schema}}.tree_tiles to mystery_app;
grant select, insert on {{.schema}}.tree_leaves, {{.schema}}.tree_checkpoints, {{.schema}}.tree_published to mystery_app;
