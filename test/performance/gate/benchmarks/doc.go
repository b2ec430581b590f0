// Package benchmarks is the check of the gate that looks at what the operator's
// functions cost by themselves: how often they allocate, which is counted and
// strict, and how their time grows with the size of what they are given, which is a
// ratio and has a tolerance. It runs the benchmarks in the files bench_test.go.
//
// Both trees are measured by the head's benchmarks, so that a benchmark which has
// changed says the same of both. Where the base cannot be compiled with them, its
// own are run.
package benchmarks
