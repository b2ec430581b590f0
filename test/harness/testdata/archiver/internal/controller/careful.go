// SPDX-License-Identifier: Apache-2.0

//go:build !careless

package controller

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	archivev1 "leasehold.dev/test/harness/testdata/archiver/api/v1"
)

// owners reads Backups from the API server. The cache may have one that is gone, or may
// not have what we wrote last: status.jobName keeps us from starting the Job twice.
func (r *BackupReconciler) owners() client.Reader { return r.Live }

// ensureNote shows the note on the Job. It compares what is there, so a process that
// died after it had changed the entry leaves nothing undone.
func (r *BackupReconciler) ensureNote(ctx context.Context, backup *archivev1.Backup,
	_ controllerutil.OperationResult) error {
	job := &batchv1.Job{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: backup.Namespace, Name: backup.Status.JobName}, job)
	if err != nil || job.Annotations[archivev1.AnnotationNote] == backup.Spec.Note {
		return client.IgnoreNotFound(err)
	}
	return r.writeNote(ctx, backup)
}

// report writes the status if it differs, with the version that was read: the API server
// refuses it if the Backup has changed since.
func (r *BackupReconciler) report(ctx context.Context, backup *archivev1.Backup, before *archivev1.BackupStatus) error {
	if apiequality.Semantic.DeepEqual(before, &backup.Status) {
		return nil
	}
	return r.Status().Update(ctx, backup)
}
