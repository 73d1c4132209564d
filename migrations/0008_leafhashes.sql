-- A record is looked for by its own hash, which is the entry of its leaf, and by that
-- of the leaf in the tree (RFC 6962, section 2.1). A hash index holds four bytes of
-- each; rows are never updated.
create index tree_leaves_hash on {{.schema}}.tree_leaves using hash (hash);
create index tree_leaves_leaf_hash on {{.schema}}.tree_leaves using hash (sha256('\x00'::bytea || hash));
