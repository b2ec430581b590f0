package reconciler

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get reads an object into `into`, which must be new. It returns nil without an error if the object
// does not exist.
func Get[T object](ctx context.Context, reader client.Reader, key client.ObjectKey, into T) (T, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		var none T
		return none, client.IgnoreNotFound(err)
	}
	return into, nil
}
