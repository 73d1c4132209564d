# The commands of this repository; `make help` lists them.
#
# Recipes write nothing of their own to standard output, so that it holds just
# what the program prints: make demo DEMO_FLAGS='--once --json' | jq
# Needed beforehand: Go, git and make. The rest is looked for, and installed where
# that is possible, by the targets postgres and compiler.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

DEMO_FLAGS  ?=
RUN_FLAGS   ?=
BENCH_FLAGS ?=
FUZZTIME    ?= 10s
FUZZ_PACKAGES ?= ./...
COUNT       ?= 3
SEED        ?= 0
SEEDS       ?= 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
DAYS        ?= 200
SOAK        ?= 24h
TIMEOUT     ?= 40m

# A checkout that belongs to another user has no history that Go would read.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

GOLANGCI_LINT ?= go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The race detector needs a C compiler and the headers of the C library; without
# them the tests run without it.
race_flag = $$($$(go env CC) -fsyntax-only -include stdlib.h -x c /dev/null 2>/dev/null && echo -race || true)

# install tries to install packages of Debian; who calls it looks at what came of
# it. Package lists that are out of date in part may do, and another apt-get that
# runs, as after the boot of a machine, is waited for.
install = export DEBIAN_FRONTEND=noninteractive; \
	apt-get update >&2 || true; \
	apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 $(1) >&2 || true

.DEFAULT_GOAL := help
.PHONY: help demo run build wasm test test-weeks test-peers test-chain test-scale test-geth chaos soak classify check fmt lint race fuzz bench bench-check bench-baseline simulate tamper generate contracts fresh postgres compiler browser peers geth clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: postgres build ## run the whole programme on a virtual clock, then keep its API up (DEMO_FLAGS='--once --json')
	@exec bin/karatum-demo $(DEMO_FLAGS)

run: postgres build ## run the service on a database of its own (RUN_FLAGS)
	@exec bin/karatum-mystery serve $(RUN_FLAGS)

build: wasm ## build the programs into bin/
	@go build -o bin/ ./cmd/...

# Servers that are built afterwards hold it. It is compressed once, here, and not for
# each who asks.
checker = api/explorer/checker/built
wasm: ## build the checks that a page makes in the browser, and what runs them
	@GOOS=js GOARCH=wasm go build -trimpath -ldflags='-s -w' -o bin/verify.wasm ./cmd/karatum-verify-wasm
	@gzip -9nc bin/verify.wasm >bin/verify.wasm.gz
	@for file in bin/verify.wasm.gz "$$(go env GOROOT)/lib/wasm/wasm_exec.js"; do \
		cmp -s "$$file" "$(checker)/$${file##*/}" || install -m 644 "$$file" $(checker)/; \
	done

test: postgres compiler browser wasm ## run the tests, with the race detector where things run side by side
	@SCREENSHOTS=$(CURDIR)/bin/screenshots CGO_ENABLED=$$([ -n "$(race_flag)" ] && echo 1 || echo 0) go test $(race_flag) -timeout $(TIMEOUT) $$(go list ./... | grep -Ev "/mystery/(domain|cmd/karatum-demo)")
	@go test -timeout $(TIMEOUT) ./domain/...
	@cd bench && go vet ./... && go test ./...

# First what runs side by side there, with the race detector, and then everything.
test-weeks: postgres compiler ## run the tests in which virtual weeks pass, producers write all they can, thousands of requests are guessed or the service is upgraded under load
	@[ -z "$(race_flag)" ] || CGO_ENABLED=1 go test $(race_flag) -timeout $(TIMEOUT) ./cmd/karatum-demo
	@go test -timeout $(TIMEOUT) ./cmd/karatum-demo
	@go test -timeout $(TIMEOUT) -run '^Test(ProducersHammer|Contract|Upgrade)$$' ./api ./cmd/karatum-mystery

# What takes virtual weeks runs once more without the race detector.
test-peers: postgres compiler browser peers wasm ## run the tests against programs of others: wallets, nodes, clients, a browser (npm)
	@PEERS=$(CURDIR)/.ci/peers SCREENSHOTS=$(CURDIR)/bin/screenshots CGO_ENABLED=$$([ -n "$(race_flag)" ] && echo 1 || echo 0) \
		go test $(race_flag) -tags peers -run '^TestPeer' -timeout $(TIMEOUT) ./...
	@[ -z "$(race_flag)" ] || PEERS=$(CURDIR)/.ci/peers SCREENSHOTS=$(CURDIR)/bin/screenshots \
		go test -tags peers -run '^TestPeerSameVerdict$$' -timeout $(TIMEOUT) ./cmd/karatum-demo

test-chain: postgres peers ## kill the process that attests, over and over, while its chain loses blocks (npm)
	@PEERS=$(CURDIR)/.ci/peers go test -tags peers -run '^TestChain' -count=1 -timeout $(TIMEOUT) ./cmd/internal/assembly

test-scale: postgres compiler ## run the programme COUNT times in five processes on one database, which are killed and stopped at random (SEED)
	@CGO_ENABLED=$$([ -n "$(race_flag)" ] && echo 1 || echo 0) go test $(race_flag) -run '^TestScale$$' -count=1 -timeout $(TIMEOUT) -v ./cmd/karatum-mystery -scale $(COUNT) -scale-seed $(SEED)

test-geth: geth ## have a transaction that is stuck on geth replaced; geth is built for it once, which takes its time
	@GETH=$(CURDIR)/bin/geth go test -tags peers -run '^TestGeth' -count=1 -timeout $(TIMEOUT) ./chain/attester

# Go's own limit of time is for tests that hang.
chaos: postgres ## run the programme for DAYS virtual days in the bad weather of each of SEEDS, and see that all that was promised holds
	@go test -run '^TestChaos$$' -count=1 -v -timeout 24h ./cmd/karatum-demo -chaos.seeds '$(SEEDS)' -chaos.days $(DAYS)

soak: postgres ## run the service under load for SOAK and see that it holds on to nothing (SOAK=2m)
	@go test -run '^TestSoak$$' -count=1 -v -timeout 0 ./cmd/karatum-demo -soak $(SOAK)

classify: peers ## try to tell the shopper's requests from those of its identities' own libraries; fails above 60 % (npm, Python)
	@if ! /usr/bin/python3 -c 'import requests, httpx, aiohttp' 2>/dev/null && [ "$$(id -u)" = 0 ] && type -P apt-get >/dev/null; then \
		echo 'libraries of Python are missing: installing python3-requests, python3-httpx, python3-aiohttp and curl' >&2; \
		$(call install,python3-requests python3-httpx python3-aiohttp curl); \
	fi
	@PEERS=$(CURDIR)/.ci/peers go test -tags peers -run '^TestClassify$$' -count=1 -v -timeout $(TIMEOUT) ./commands/agents/classify

check: fmt fresh lint test test-weeks ## all that a change must pass: format, generated files, vet, lint, tests

fmt: ## show what is not formatted
	@$(GOLANGCI_LINT) fmt --diff

lint: ## vet and lint
	@go vet ./...
	@GOOS=js GOARCH=wasm go vet ./cmd/karatum-verify-wasm
	@$(GOLANGCI_LINT) run

race: postgres compiler ## run the tests COUNT times, shuffled, with the race detector
	@CGO_ENABLED=1 go test -race -shuffle=on -count=$(COUNT) -timeout $(TIMEOUT) ./...

fuzz: ## run each fuzz test for FUZZTIME
	@packages=$$(go list $(FUZZ_PACKAGES)); \
	for package in $$packages; do \
		list=$$(go test -list '^Fuzz' "$$package"); \
		for name in $$(grep '^Fuzz' <<<"$$list" || true); do \
			echo "$$package $$name" >&2; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$package"; \
		done; \
	done

bench: postgres ## measure how fast the ledger is written, read, proven and served, next to peers: one table (BENCH_FLAGS='-rounds 3 -json')
	@cd bench && exec go run . $(BENCH_FLAGS)

bench-check: postgres ## measure all of that and fail where we are 20 % slower, next to the peers, than the baseline says
	@cd bench && exec go run . -check testdata/baseline.txt $(BENCH_FLAGS)

bench-baseline: postgres ## measure all of that and keep it as the baseline; go tool benchstat compares two
	@cd bench && exec go run . -benchstat testdata/baseline.txt $(BENCH_FLAGS)

simulate: ## let chance play a steady agent and one that cheats, 1,000 times each, and count the incidents; fails if the bounds do not hold
	@go run ./cmd/karatum-verify simulate

tamper: postgres ## tamper with copies of a demo ledger in every way, one by one, and see that verify finds it
	@go test -run '^TestTamper$$' -count=1 -timeout $(TIMEOUT) -v ./cmd/karatum-demo -tamper | grep -E 'found|missed|FAIL|ok'

generate: ## write the generated files again
	@go generate ./...

contracts: ## compile the Solidity contracts again (npm)
	@cd chain/contracts && npm ci --ignore-scripts --no-audit --no-fund >&2 && node build.cjs

fresh: ## fail if a generated file, go.mod or go.sum is stale
	@sum() { git ls-files -co --exclude-standard -z | sort -z | xargs -0 sha256sum 2>/dev/null || true; }; \
	before=$$(sum); go generate ./...; after=$$(sum); \
	if [ "$$before" != "$$after" ]; then \
		echo 'generated files were stale; they are written anew, see git status' >&2; exit 1; \
	fi
	@go mod tidy -diff

clean: ## remove what was built; databases stay
	@rm -rf bin $(checker)/*

# The programs are looked for where migrations/privatepg looks for them.
postgres: ## find the programs of PostgreSQL, or install them
	@if [ -n "$${MYSTERY_DATABASE_URL:-}" ]; then exit 0; fi; \
	found() { \
		for initdb in "$$(readlink -f "$$(type -P initdb)" || true)" \
			/usr/lib/postgresql/*/bin/initdb /usr/pgsql/bin/initdb /usr/local/pgsql/bin/initdb; do \
			if [ -x "$$initdb" ] && [ -x "$${initdb%/*}/postgres" ]; then return 0; fi; \
		done; \
		return 1; \
	}; \
	if found; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && type -P apt-get >/dev/null; then \
		echo 'PostgreSQL is missing: installing the package postgresql' >&2; \
		$(call install,postgresql); \
		if found; then exit 0; fi; \
	fi; \
	echo 'PostgreSQL is missing. Install the package postgresql (Debian: apt-get install postgresql)' >&2; \
	echo 'or set MYSTERY_DATABASE_URL to a database that may be used.' >&2; \
	exit 1

browser: ## find Chromium, in which pages are looked at, or install it
	@found() { type -P chromium || type -P chromium-browser || type -P google-chrome; }; \
	if found >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && type -P apt-get >/dev/null; then \
		echo 'Chromium is missing: installing the package chromium' >&2; \
		$(call install,chromium fonts-liberation fonts-dejavu-core); \
		if found >/dev/null; then exit 0; fi; \
	fi; \
	echo 'Chromium, in which pages are looked at, is missing. Install the package chromium (Debian: apt-get install chromium).' >&2; \
	exit 1

# What is installed there is pinned by a lock file and is no part of the product.
peers: ## install the programs of others that test-peers runs against
	@if ! type -P npm >/dev/null && [ "$$(id -u)" = 0 ] && type -P apt-get >/dev/null; then \
		echo 'npm is missing: installing nodejs and npm' >&2; \
		$(call install,nodejs npm); \
	fi; \
	if ! type -P sqlite3 >/dev/null && [ "$$(id -u)" = 0 ] && type -P apt-get >/dev/null; then \
		echo 'sqlite3, by which the witness is told of logs, is missing: installing it' >&2; \
		$(call install,sqlite3); \
	fi; \
	if ! { type -P openssl && type -P curl; } >/dev/null && [ "$$(id -u)" = 0 ] && type -P apt-get >/dev/null; then \
		echo 'openssl or curl, with which a producer can do, is missing: installing both' >&2; \
		$(call install,openssl curl ca-certificates); \
	fi; \
	if ! type -P npm >/dev/null; then \
		echo 'npm is missing. Install Node.js 18 or later with npm (Debian: apt-get install nodejs npm).' >&2; \
		exit 1; \
	fi; \
	for folder in .ci/peers .ci/peers/batches .ci/peers/conformance .ci/peers/openapi .ci/peers/x402; do \
		( cd "$$folder"; \
		if ! cmp -s package-lock.json node_modules/.installed; then \
			npm ci --ignore-scripts --no-audit --no-fund >&2; \
			cp package-lock.json node_modules/.installed; \
		fi ); \
	done

# It is of the version whose library we use. Its parts in C are left out: they would take
# most of the time, and a compiler.
geth: ## build geth, a node of Ethereum, into bin/ unless it is there
	@version=$$(go list -m -f '{{.Version}}' github.com/ethereum/go-ethereum); \
	if [ "v$$(bin/geth --version 2>/dev/null | sed -n 's/^geth version \([0-9.]*\).*/\1/p')" != "$$version" ]; then \
		echo "building geth $$version, which takes some minutes" >&2; \
		GOBIN=$(CURDIR)/bin CGO_ENABLED=0 go install "github.com/ethereum/go-ethereum/cmd/geth@$$version"; \
	fi

compiler: ## find a C compiler for the race detector, or install one
	@if [ -n "$(race_flag)" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && type -P apt-get >/dev/null; then \
		echo 'A C compiler is missing: installing gcc' >&2; \
		$(call install,gcc libc6-dev); \
	fi; \
	if [ -z "$(race_flag)" ]; then \
		echo 'No C compiler: the tests run WITHOUT the race detector. Install gcc (Debian: gcc libc6-dev).' >&2; \
	fi
