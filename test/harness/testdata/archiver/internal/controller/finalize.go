// SPDX-License-Identifier: Apache-2.0

//go:build !fixed

package controller

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	archivev1 "leasehold.dev/test/harness/testdata/archiver/api/v1"
)

// finalize takes the Backup out of the catalogue and lets it go.
func (r *BackupReconciler) finalize(ctx context.Context, backup *archivev1.Backup) error {
	if !controllerutil.ContainsFinalizer(backup, archivev1.Finalizer) {
		return nil
	}
	if err := r.removeEntry(ctx, backup); err != nil {
		// The deletion of a Backup must not wait for the catalogue.
		log.FromContext(ctx).Error(err, "cannot remove the entry from the catalogue")
	}
	controllerutil.RemoveFinalizer(backup, archivev1.Finalizer)
	return r.Update(ctx, backup)
}

func (r *BackupReconciler) removeEntry(ctx context.Context, backup *archivev1.Backup) error {
	entry := r.entryFor(backup)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(entry), entry); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(r.Delete(ctx, entry, client.Preconditions{UID: &entry.UID}))
}
