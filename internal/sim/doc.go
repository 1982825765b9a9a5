// Package sim runs the rules of shardkv in a small world with faults: groups
// with replicated logs, a ctrler's history, nodes with lanes, clients, clocks
// that differ, moves, crashes. A run is a function of its seed.
//
// The groups run group/machine and migrate, the very code of the product; what
// goes on outside of a group's log (consensus, transport, the router's rules) is
// modelled as simply as its promises allow, in doubt wherever they allow doubt.
// Oracles judge every reply and every state; a list of mutants, each one rule
// broken, proves that they would notice.
//
// TestSeeds runs the product (SHARDKV_SIM_SEEDS=100000 for a long run) and says
// which states were reached; TestMutants says how many seeds catch each mutant;
// TestTraces and TestScripts play the traces of those that seeds seldom meet;
// TestSeed with SHARDKV_SIM_SEED=N shows what happened in one world that failed.
//
// The tests are the purpose; the code outside of them is what other packages'
// tests may use too (Rows). It must not be imported by the product.
package sim
