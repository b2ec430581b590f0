// SPDX-License-Identifier: Apache-2.0

//go:build fixed

package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	archivev1 "leasehold.dev/test/harness/testdata/archiver/api/v1"
)

// finalize takes the Backup out of the catalogue and lets it go when it is known to
// be out. What could not be done now is done in the next pass.
func (r *BackupReconciler) finalize(ctx context.Context, backup *archivev1.Backup) error {
	if !controllerutil.ContainsFinalizer(backup, archivev1.Finalizer) {
		return nil
	}
	entry := r.entryFor(backup)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(entry), entry)
	if err == nil {
		err = r.Delete(ctx, entry, client.Preconditions{UID: &entry.UID, ResourceVersion: &entry.ResourceVersion})
	}
	if err == nil {
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(entry), entry)
	}
	if err == nil {
		err = fmt.Errorf("the entry %s is still in the catalogue", entry.Name)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	controllerutil.RemoveFinalizer(backup, archivev1.Finalizer)
	return r.Update(ctx, backup)
}
