// SPDX-License-Identifier: Apache-2.0

//go:build careless

package controller

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	archivev1 "leasehold.dev/test/harness/testdata/archiver/api/v1"
)

// owners reads Backups from the cache.
func (r *BackupReconciler) owners() client.Reader { return r.Client }

// ensureNote shows the note on the Job, which has it if the entry has not changed.
func (r *BackupReconciler) ensureNote(ctx context.Context, backup *archivev1.Backup,
	done controllerutil.OperationResult) error {
	if done != controllerutil.OperationResultUpdated {
		return nil
	}
	return r.writeNote(ctx, backup)
}

// report writes the status. The API server ignores a write that changes nothing.
func (r *BackupReconciler) report(ctx context.Context, backup *archivev1.Backup, _ *archivev1.BackupStatus) error {
	patch, err := json.Marshal(map[string]any{"status": backup.Status})
	if err != nil {
		return err
	}
	return r.Status().Patch(ctx, backup, client.RawPatch(types.MergePatchType, patch))
}
