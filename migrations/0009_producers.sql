-- Requests of producers that were let in. A row may go once its request has expired: it
-- is worth nothing then.
create table {{.schema}}.producer_nonces (
  producer text        not null,
  nonce    text        not null,
  expires  timestamptz not null,
  primary key (producer, nonce)
);
create index on {{.schema}}.producer_nonces (expires);

grant select, insert, update, delete on {{.schema}}.producer_nonces to mystery_app;
