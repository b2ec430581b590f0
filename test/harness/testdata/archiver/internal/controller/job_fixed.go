// SPDX-License-Identifier: Apache-2.0

//go:build fixed

package controller

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archivev1 "leasehold.dev/test/harness/testdata/archiver/api/v1"
)

// ensureJob starts the Job unless the status says that it has been. It has the
// Backup's name: who has died before the status was written, or has not got the
// answer, finds the Job and does not start another.
func (r *BackupReconciler) ensureJob(ctx context.Context, backup *archivev1.Backup) error {
	if backup.Status.JobName != "" {
		return nil
	}
	job := jobFor(backup)
	job.Name = backup.Name
	if err := ctrl.SetControllerReference(backup, job, r.Scheme()); err != nil {
		return err
	}
	err := r.Create(ctx, job)
	if apierrors.IsAlreadyExists(err) {
		found := &batchv1.Job{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), found); err != nil {
			return err
		}
		if !metav1.IsControlledBy(found, backup) {
			return fmt.Errorf("the Job %s is not of this Backup", job.Name)
		}
		err = nil
	}
	if err != nil {
		return err
	}
	backup.Status.JobName = job.Name
	return nil
}
