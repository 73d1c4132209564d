-- What was paid for tasks, and what may have been. A row is made before anything is
-- signed and counts from then on; only one that is released does not, for its
-- authorization was never given away or cannot be used any more.
create table {{.schema}}.spends (
  shop     text        primary key, -- one purchase for each task
  consent  text        not null,
  month    text        not null, -- such as 2027-03
  amount   numeric(30) not null check (amount > 0), -- atomic units
  payer    text        not null,
  payment  bytea, -- the signed authorization, kept before it leaves
  released boolean     not null default false
);
create index on {{.schema}}.spends (consent, month);
create index on {{.schema}}.spends (payer);

grant select, insert, update on {{.schema}}.spends to mystery_app;
