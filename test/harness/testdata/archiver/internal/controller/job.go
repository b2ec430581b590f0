// SPDX-License-Identifier: Apache-2.0

//go:build !fixed

package controller

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	archivev1 "leasehold.dev/test/harness/testdata/archiver/api/v1"
)

// ensureJob starts the Job unless the status says that it has been.
func (r *BackupReconciler) ensureJob(ctx context.Context, backup *archivev1.Backup) error {
	if backup.Status.JobName != "" {
		return nil
	}
	job := jobFor(backup)
	job.GenerateName = backup.Name + "-"
	if err := ctrl.SetControllerReference(backup, job, r.Scheme()); err != nil {
		return err
	}
	if err := r.Create(ctx, job); err != nil {
		return err
	}
	backup.Status.JobName = job.Name
	return nil
}
