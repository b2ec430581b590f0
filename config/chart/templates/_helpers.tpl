{{- /* The image of the manager or of the viewer: include "leasehold.image" (list . "viewer"). */ -}}
{{- define "leasehold.image" -}}
{{- $root := first . -}}
{{- $image := index $root.Values.images (last .) -}}
{{- $tag := $image.tag -}}
{{- if not (or $tag $image.digest) -}}
{{- $tag = $root.Chart.AppVersion -}}
{{- end -}}
{{- $image.repository -}}
{{- with $tag }}:{{ . }}{{ end -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- /* YAML takes off without quotes for false. */ -}}
{{- define "leasehold.fence" -}}
{{- kindIs "bool" .Values.fence | ternary "off" .Values.fence -}}
{{- end -}}

{{- /* The flags, as items of the container's arguments. */ -}}
{{- define "leasehold.flags" -}}
{{- if ne .Values.tenantAdminClusterRole "admin" }}
- {{ printf "--tenant-admin-cluster-role=%s" .Values.tenantAdminClusterRole | quote }}
{{- end }}
{{- range $name, $value := .Values.flags }}
{{- range kindIs "slice" $value | ternary $value (list $value) }}
- {{ printf "--%s=%s" $name (kindIs "string" . | ternary . (toJson .)) | quote }}
{{- end }}
{{- end }}
{{- end -}}
