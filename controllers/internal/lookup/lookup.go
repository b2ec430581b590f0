// Package lookup reads objects that may not exist.
package lookup

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get reads one object; nil without an error means that it does not exist.
func Get[T interface {
	client.Object
	comparable
}](ctx context.Context, reader client.Reader, key client.ObjectKey, into T) (T, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		var none T
		return none, client.IgnoreNotFound(err)
	}
	return into, nil
}
