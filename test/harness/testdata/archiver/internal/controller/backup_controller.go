// SPDX-License-Identifier: Apache-2.0

// Package controller reconciles Backups.
package controller

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	archivev1 "leasehold.dev/test/harness/testdata/archiver/api/v1"
)

// BackupReconciler makes for each Backup a Job, which copies the database, and an
// entry in the catalogue, a ConfigMap in the archiver's own namespace.
type BackupReconciler struct {
	client.Client

	// Live reads from the API server and not from the cache.
	Live client.Reader
	// Namespace is the archiver's own.
	Namespace string
}

// +kubebuilder:rbac:groups=archive.example.com,resources=backups,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=archive.example.com,resources=backups/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=archive.example.com,resources=backups/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=core,namespace=system,resources=configmaps,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=core,namespace=system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,namespace=system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=system,resources=leases,verbs=get;list;watch;create;update;patch;delete

// Reconcile brings one Backup to where its spec says.
func (r *BackupReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	backup := &archivev1.Backup{}
	if err := r.owners().Get(ctx, req.NamespacedName, backup); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !backup.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, backup)
	}
	if controllerutil.AddFinalizer(backup, archivev1.Finalizer) {
		if err := r.Update(ctx, backup); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := backup.Status.DeepCopy()
	if err := r.ensureJob(ctx, backup); err != nil {
		return ctrl.Result{}, err
	}
	done, err := r.ensureEntry(ctx, backup)
	if err == nil {
		err = r.ensureNote(ctx, backup, done)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	meta.SetStatusCondition(&backup.Status.Conditions, metav1.Condition{
		Type: archivev1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Started",
		Message: "the Job has been started", ObservedGeneration: backup.Generation,
	})
	backup.Status.ObservedGeneration = backup.Generation
	return ctrl.Result{}, r.report(ctx, backup, before)
}

// jobFor is the Job of a Backup, without a name.
func jobFor(backup *archivev1.Backup) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: backup.Namespace,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "archiver"}},
		Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "dump", Image: "example.com/dump:1",
					Args: []string{backup.Spec.Database}}},
			}},
		},
	}
}

// entryFor is where a Backup's entry in the catalogue is. It is in another
// namespace, so an owner reference cannot take care of it.
func (r *BackupReconciler) entryFor(backup *archivev1.Backup) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace,
		Name: backup.Namespace + "." + backup.Name}}
}

func (r *BackupReconciler) ensureEntry(ctx context.Context,
	backup *archivev1.Backup) (controllerutil.OperationResult, error) {
	entry := r.entryFor(backup)
	return controllerutil.CreateOrUpdate(ctx, r.Client, entry, func() error {
		entry.Annotations = map[string]string{archivev1.AnnotationBackupUID: string(backup.UID)}
		entry.Data = map[string]string{"database": backup.Spec.Database, "note": backup.Spec.Note}
		return nil
	})
}

// writeNote shows the note of a Backup on its Job.
func (r *BackupReconciler) writeNote(ctx context.Context, backup *archivev1.Backup) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: backup.Namespace, Name: backup.Status.JobName}}
	noted := job.DeepCopy()
	noted.Annotations = map[string]string{archivev1.AnnotationNote: backup.Spec.Note}
	return r.Patch(ctx, noted, client.MergeFrom(job))
}

// SetupWithManager registers the controller.
func (r *BackupReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&archivev1.Backup{}).Owns(&batchv1.Job{}).Complete(r)
}
