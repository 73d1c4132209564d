-- Keys of challenges, which processes that hold an operator secret leave to those that
-- hold none. No secret follows from one.
create table {{.schema}}.challenge_keys (
  operator_key bytea primary key check (octet_length(operator_key) = 32),
  key          bytea not null check (octet_length(key) = 32)
);

grant select, insert on {{.schema}}.challenge_keys to mystery_app;
