// SPDX-License-Identifier: Apache-2.0

// Package runners contains what the manager runs beside its controllers and webhook server. Each
// runnable states whether only the leader runs it.
package runners
