package attack

// SlowBodies holds requests at the webhooks of the operator by bodies that never end. It has no
// steps: a client without credentials does it past the API server.
const SlowBodies = "slow-bodies"
