// Package server bounds what clients without credentials can use of the servers that the manager
// opens: webhooks, metrics and probes. The attacker is a Pod that reaches their ports.
//
// Deadlines of net/http end slow requests. Package connections closes those that wait when there
// are too many. Webhooks limit the large bodies that are decoded at the same time.
package server
