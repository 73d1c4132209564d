package explorer

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/projections"
)

// A hit is something that a search found.
type hit struct {
	Form string // a key of formWords
	Path string
	Name string
}

// Words says what the search matched.
func (h hit) Words() string { return formWords[h.Form] }

// formWords say what was matched. The keys travel in addresses.
var formWords = map[string]string{
	"agent": "the name of an agent", "consent": "the id of a consent", "shop": "the id of a slot", "finding": "the id of a finding", "incident": "the id of an incident", "batch_number": "the number of a batch",
	"index": "the index of a public record", "stream": "a stream of the ledger",
	"record": "the hash of a public record", "leaf": "the hash of a leaf of the log’s tree", "root": "the root of a checkpoint of the log",
	string(projections.CommitHash): "the commitment of a slot", string(projections.ReplyHash): "the commitment to a reply",
	string(projections.SealRoot): "the root of an hourly seal", string(projections.PayloadHash): "the hash of a signed payload",
	string(projections.PlanKeyRoot): "the root over the day keys of a consent", string(projections.DayKey): "the key of an opened day",
	string(projections.BatchRoot): "the root of a batch", string(projections.BatchID): "the id of a batch",
	string(projections.AttestationUID): "the UID of an attestation", string(projections.TransactionHash): "the transaction of an attestation",
}

// maxQuery is the longest that is searched for: that of an agent's name.
const maxQuery = 400

type searchPage struct {
	frame

	Query string
	Hits  []hit
}

// search leads to what was searched for if it is one thing, and lists what it may be else.
func (p *Pages) search(w http.ResponseWriter, r *http.Request) {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	hits, err := p.find(r.Context(), query)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	if len(hits) == 1 {
		separator := "?"
		if strings.Contains(hits[0].Path, "?") {
			separator = "&"
		}
		http.Redirect(w, r, hits[0].Path+separator+url.Values{"matched": {hits[0].Form}}.Encode(), http.StatusSeeOther) //nolint:gosec // a path of ours
		return
	}
	p.page("search", nil, func(_ *http.Request, f frame, _ projections.Status) (any, error) {
		f.Title = "Search"
		f.Description = "Find an agent, a consent, a slot, a batch or a record by its id or by any hash of it."
		if len(query) > maxQuery {
			query = ""
		}
		f.Query = query
		return searchPage{frame: f, Query: query, Hits: hits}, nil
	})(w, r)
}

// find returns what a query names. What does not exist is not among it.
func (p *Pages) find(ctx context.Context, query string) (hits []hit, err error) {
	if query == "" || len(query) > maxQuery {
		return nil, nil
	}
	kind, id, isStream := strings.Cut(query, "/")
	switch hash, err := domain.ParseHash(strings.TrimPrefix(strings.ToLower(query), "0x")); {
	case err == nil:
		return p.findHash(ctx, hash)
	case consentIDs.MatchString(query):
		_, err := p.config.Reader.Consent(ctx, query)
		return one(hit{"consent", "/mystery/" + query, query}, err)
	case shopIDs.MatchString(query):
		_, err := p.config.Reader.Shop(ctx, query)
		return one(hit{"shop", "/mystery/shops/" + query, query}, err)
	case incidentIDs.MatchString(query):
		list, err := p.config.Reader.Incidents(ctx, projections.IncidentQuery{Incident: query, Limit: 1})
		if err != nil || len(list) == 0 {
			return nil, err
		}
		return []hit{{"incident", "/incidents/" + query, query}}, nil
	case findingIDs.MatchString(query):
		id, look, err := finding.ParseID(query)
		if err != nil {
			return nil, nil //nolint:nilerr // it names nothing
		}
		_, err = p.config.Reader.Finding(ctx, id, look)
		return one(hit{"finding", addressOfLook(id, look), query}, err)
	case isStream:
		path := pageOfStream(ledger.Stream(query))
		if path == "" || strings.ContainsAny(id, "/?#%") {
			return nil, nil
		}
		found, err := p.find(ctx, id)
		if kind == "batch" {
			found, err = p.findNumber(ctx, id)
		}
		for _, h := range found {
			if h.Path == path {
				return []hit{{"stream", path, query}}, err
			}
		}
		return nil, err
	}
	for _, word := range []string{"record", "batch"} {
		if number, ok := strings.CutPrefix(query, word+" "); ok {
			found, err := p.findNumber(ctx, strings.TrimSpace(number))
			for _, h := range found {
				if (h.Form == "index") == (word == "record") {
					hits = append(hits, h)
				}
			}
			return hits, err
		}
	}
	name := query
	if !strings.Contains(name, ":") {
		name = "build:" + name
	}
	if ref, err := agent.ParseRef(name); err == nil {
		_, err := p.config.Reader.Agent(ctx, ref)
		if hits, err = one(hit{"agent", "/agents/" + bareRef(ref), string(ref)}, err); err != nil {
			return nil, err
		}
	}
	numbers, err := p.findNumber(ctx, query)
	return append(hits, numbers...), err
}

// one returns the hit unless err says that there is none.
func one(h hit, err error) ([]hit, error) {
	if errors.Is(err, domain.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []hit{h}, nil
}

// findNumber returns the batch and the record that have a number.
func (p *Pages) findNumber(ctx context.Context, text string) (hits []hit, err error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > maxIndex {
		return nil, nil //nolint:nilerr // it is no number
	}
	text = strconv.FormatUint(n, 10)
	if n > 0 {
		_, err := p.config.Reader.Batch(ctx, n)
		if hits, err = one(hit{"batch_number", "/ledger/batches/" + text, "Batch " + text}, err); err != nil {
			return nil, err
		}
	}
	head, err := p.config.Ledger.Head(ctx)
	if errors.Is(err, domain.ErrNotFound) || err == nil && n >= head.Size {
		return hits, nil
	}
	return append(hits, hit{"index", "/ledger/records/" + text, "Record " + text}), err
}

// findHash returns what a hash is of, in every form that hashes have here.
func (p *Pages) findHash(ctx context.Context, hash domain.Hash) (hits []hit, err error) {
	named, err := p.config.Reader.FindHash(ctx, hash)
	if err != nil {
		return nil, err
	}
	for _, n := range named {
		h := hit{Form: string(n.Form), Name: n.Of}
		switch n.Form {
		case projections.CommitHash, projections.ReplyHash:
			h.Path = "/mystery/shops/" + n.Of
		case projections.SealRoot, projections.PayloadHash, projections.PlanKeyRoot, projections.DayKey:
			h.Path = "/mystery/" + n.Of
		case projections.BatchRoot, projections.BatchID, projections.AttestationUID, projections.TransactionHash:
			h.Path, h.Name = "/ledger/batches/"+n.Of, "Batch "+n.Of
		}
		hits = append(hits, h)
	}
	leaf, err := p.config.Ledger.Find(ctx, hash)
	if err != nil {
		return nil, err
	}
	if leaf != nil {
		index := strconv.FormatUint(leaf.Index, 10)
		h := hit{"record", "/ledger/records/" + index, "Record " + index}
		if leaf.Hash != hash {
			h.Form = "leaf"
		}
		hits = append(hits, h)
	}
	isRoot, err := p.config.Ledger.IsRoot(ctx, hash)
	if isRoot {
		hits = append(hits, hit{"root", "/ledger", "A checkpoint of the log"})
	}
	return hits, err
}
