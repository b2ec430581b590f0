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

{{- /* The milliseconds of a duration such as 1m30s. */ -}}
{{- define "leasehold.milliseconds" -}}
{{- $duration := . -}}
{{- $sum := 0 -}}
{{- range $unit, $factor := dict "h" 3600000 "m" 60000 "s" 1000 "ms" 1 -}}
{{- $part := regexFind (printf "[0-9]+%s([0-9]|$)" $unit) $duration -}}
{{- $sum = add $sum (mul $factor (regexFind "^[0-9]+" $part | int64)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}
