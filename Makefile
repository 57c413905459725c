# Tenet: everything a developer runs. `make help` lists the targets.
SHELL := /bin/bash
GOLANGCI_LINT_VERSION := v2.15.0
BIN := $(CURDIR)/.bin

.DEFAULT_GOAL := help
# Raced and plain tests run beside each other.
MAKEFLAGS += --jobs=2
.PHONY: help build packages test raced meeting plain soak format check cover lint generate tidy fuzz bench grid screenshots demo

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

build: ## build the tenet binary into the current folder
	go build -o tenet ./cmd/tenet

# Every package of every module but the benchmarks'.
ALL = $$(go list -m -f '{{.Dir}}/...' | grep -v /bench/)

# Tests whose subject is one goroutine, or a process or browser that runs for long, do without the race detector, under which they take
# several times as long. Make soak runs the concurrent ones with it.
# Of SQLite's store and of the audit log, whose tests are many, those in which goroutines meet run with it too.
PLAIN = ./server/ui . ./cmd/tenet ./adapter/sqlite ./audit ./cmd/tenet/internal/{crashtest,dlq,gen,jobline,jobs,monitor,open,policies,policyimport} \
	./cmd/tenet/internal/{recording,records,release,workers} ./prove ./simulate ./amplify ./policyfile ./rollout ./bench/outage

# Nobody debugs these programs, so they have neither DWARF nor symbols. Compilers take two thirds of the time without inlining, so only
# packages that compute much are inlined: the standard library, SQLite, codecs, checkers of histories and, without the race detector, Tenet
# except its server and commands. All go commands have these flags, also those of tests, so that each package is compiled once,
# and once for all clones on a machine, because -trimpath leaves out their folders.
INLINE = -dwarf=false
SMALL = -l $(INLINE)
CODECS = golang.org/x/text/... github.com/klauspost/compress/... github.com/gowebpki/jcs go.yaml.in/yaml/v4/...
FLAGS = $(shell go env GOFLAGS) -trimpath -ldflags=-s '-gcflags=all=$(SMALL)' \
	$(foreach p,std modernc.org/... pgregory.net/rapid github.com/anishathalye/porcupine $(CODECS),'-gcflags=$(p)=$(INLINE)')
UNRACED = $(FLAGS) '-gcflags=github.com/tenetdev/tenet/...=$(INLINE)' $(foreach p,server cmd,'-gcflags=github.com/tenetdev/tenet/$(p)/...=$(SMALL)')

# The race detector leaves out the C code of SQLite, translated to Go, the server of NATS, tables and codecs. With it, tests take as long
# whether Tenet is inlined or not.
RACE = $(FLAGS) -race $(foreach p,modernc.org/sqlite/lib modernc.org/libc $(CODECS),'-gcflags=$(p)=-race=false $(INLINE)') \
	'-gcflags=github.com/nats-io/nats-server/v2/...=-race=false $(SMALL)'

# The packages whose tests take longest begin first.
LONG = ./adapter/postgres ./adapter/rabbitmq ./server ./adapter/nats/natspipe ./adapter/nats/natsstore ./adapter/memory \
	./adapter/postgres/pgpipe ./job ./adapter/redis ./server/client ./adapter/nats
RACED = $(LONG) $$(go list $(ALL) | grep -vxF "$$(go list $(PLAIN))")

packages: ## install the Debian packages whose programs tests run, where they are missing: a minute the first time, as root
	go run ./internal/debian/install

test: packages format raced plain meeting ## vet, race tests, command-line scripts, import rules, stale documents: about ten minutes on two cores, and up to five more the first time

# Without GORACE, each process with the race detector would take a second to exit. Compilers, tests and commands of scripts end before
# it pays to collect their garbage.
packages raced meeting plain: export GOGC = 400
raced meeting: export GOFLAGS = $(RACE)
raced meeting: export GORACE = atexit_sleep_ms=0
raced: packages format
	go test -vet=off -short -p 3 -parallel 8 -timeout 40m $(RACED)

# After plain, because raced has compiled most of it by then. Vet looks at all packages, then at the programs in the docs, so that it
# reads what they import once. It is last, because the longest tests are in raced and mostly wait: they begin at once.
meeting: plain
	go test -vet=off -short -parallel 8 -timeout 40m -skip '^TestA[3-6]' ./audit
	go test -vet=off -short -parallel 8 -timeout 40m -run '/^(J1|J7|J12|J19|J23|I3|I5)$$' -skip '^TestS7|Plans' ./adapter/sqlite
	go vet $(ALL) ./bench/outage
	go test -vet=off -short -run '^TestDocsGoCompiles$$' .

packages plain: export GOFLAGS = $(UNRACED)
plain: packages format
	go test -vet=off -short -p 2 -parallel 8 -timeout 40m -skip '^TestDocsGoCompiles$$' $(PLAIN)

soak: ## all tests at full size, without -short, those of the benchmarks too: about an hour
	go test -timeout 2h -p 1 $(ALL) ./bench/...
	go test -race -short -timeout 2h -p 1 . ./cmd/tenet ./cmd/tenet/internal/crashtest ./server/ui ./adapter/sqlite ./audit

format:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these files"; exit 1; }

check: format ## formatting and vet, without tests: a minute
	go vet $(ALL)

cover: ## statement coverage of the core packages
	go test -cover ./policy ./decision ./classify ./budget ./circuit ./hedge ./retry ./policyfile ./controlplane

lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION) ## golangci-lint, pinned: three minutes, two more the first time
	$< run $(ALL) ./bench/...

$(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION):
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(BIN)/golangci-lint $@

generate: ## write the generated files: field docs, schema, references
	go generate $(ALL)
	go test ./adapter/prometheus ./adapter/otel -update
	go test ./audit -update-schema
	go test ./cmd/tenet -run TestTheEnvironmentPage -update

tidy: ## go mod tidy in every module; the modules of this repository stand in for each other
	@set -e; modules="$$(go list -m -f '{{.Path}}={{.Dir}}')"; for m in $$modules; do \
		echo "$${m%%=*}"; cd "$${m#*=}"; \
		for other in $$modules; do [ "$$other" = "$$m" ] || go mod edit -replace="$$other"; done; \
		GOWORK=off go mod tidy; \
		for other in $$modules; do go mod edit -dropreplace="$${other%%=*}"; done; \
	done

fuzz: ## fuzz the document parser for a minute
	go test -run '^$$' -fuzz FuzzParse -fuzztime 1m ./policyfile

bench: ## benchmarks of calls beside the peers: three minutes; ./jobs, ./records, ./pipelines and ./server are commands of their own
	cd bench && go run .

grid: ## the outage grid of retry budgets, also shared by ten processes, and adaptive limits in an overload: half a minute
	cd bench && go run . -grid && go test -count 1 -v -run 'TestB1TheShared|TestB4TheAdaptive' ./outage

screenshots: ## renew the pictures in docs/screenshots: a minute
	mkdir -p docs/screenshots
	SCREENSHOTS=$(CURDIR)/docs/screenshots go test -count=1 -run TestScreenshots ./server/ui

demo: ## the main job, embedded: ten seconds
	go run ./cmd/tenet demo
