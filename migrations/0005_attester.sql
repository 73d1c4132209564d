-- What attests batches, see package chain/attester.

-- Transactions that were signed, from before they were sent. Any of them may be mined
-- at any time, so none is ever deleted.
create table {{.schema}}.attester_transactions (
  hash    bytea       primary key check (length(hash) = 32),
  chain   bigint      not null,
  account bytea       not null check (length(account) = 20),
  nonce   bigint      not null check (nonce >= 0),
  batch   bigint      not null check (batch >= 0), -- 0: is of none
  raw     bytea       not null,
  signed  timestamptz not null
);
create index attester_transactions_nonce on {{.schema}}.attester_transactions (chain, account, nonce);

create trigger append_only before update or delete on {{.schema}}.attester_transactions
  for each row execute function {{.schema}}.refuse_change();
create trigger append_only_truncate before truncate on {{.schema}}.attester_transactions
  for each statement execute function {{.schema}}.refuse_change();

-- How attesting goes, for those that do not attest themselves.
create table {{.schema}}.attester_status (
  one    boolean     primary key default true check (one),
  state  text        not null,
  detail text        not null,
  since  timestamptz not null
);

grant select, insert on {{.schema}}.attester_transactions to mystery_app;
grant select, insert, update on {{.schema}}.attester_status to mystery_app;
