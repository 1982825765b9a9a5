# Each target is one plain command that can be typed as well.
help: ## print the targets
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed 's/:.*## /\t/'
build: ## the binary, ./shardkv
	go build -o shardkv .
dev: ## a whole cluster in one process
	go run . dev
test: ## the tests
	go test ./...
e2e: ## tests with real processes
	go test -tags e2e -count=1 ./internal/e2e
chaos: ## faults on real processes in network namespaces, the long form
	SHARDKV_CHAOS=long go test -tags chaos -count=1 -timeout 12h ./internal/chaos
failpoints: ## every failpoint alone and every pair of them, hours
	SHARDKV_CHAOS=long go test -tags chaos -count=1 -v -timeout 8h -run TestFailpoints ./internal/chaos
bench: ## beside etcd, NATS and Redis Cluster; about an hour
	go run ./internal/bench -short
sim: ## the simulators, 100,000 seeds
	SHARDKV_SIM_SEEDS=100000 go test -count=1 -timeout 4h ./internal/sim ./ctrler/promise
ci: ## everything that must pass
	.ci/run
.PHONY: help build dev test e2e chaos failpoints bench sim ci
