// Package election makes the lock that decides which replica leads.
package election
