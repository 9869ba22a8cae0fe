{{/* Flags, ports and Job settings of each mode. */}}
{{- define "kamino.controllerArgs" }}
- controller
- --health-probe-bind-address=:{{ .Values.controller.healthPort }}
- --metrics-bind-address={{ if .Values.metrics.enabled }}:{{ .Values.metrics.port }}{{ else }}0{{ end }}
- --max-concurrent={{ .Values.controller.maxConcurrent }}
{{- with .Values.dashboard }}
{{- if .enabled }}
- --dashboard-bind-address=127.0.0.1:{{ .port }}
{{- end }}
{{- end }}
{{- if include "kamino.notices" . }}
- --notify-url-file=/etc/kamino-notify/{{ .Values.notify.key }}
{{- end }}
{{- with .Values.clusterName }}
- --cluster-name={{ . }}
{{- end }}
{{ include "kamino.args" . }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Flags of modes job and cronjob. Values of earlier versions have no oneShot.extraArgs. */}}
{{- define "kamino.oneShotArgs" }}
{{- include "kamino.args" . }}
{{- with .Values.oneShot.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kamino.controllerPorts" }}
ports:
- name: health
  containerPort: {{ .Values.controller.healthPort }}
{{- if .Values.metrics.enabled }}
- name: metrics
  containerPort: {{ .Values.metrics.port }}
{{- end }}
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  initialDelaySeconds: 10
  periodSeconds: 20
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 10
{{- end }}

{{- define "kamino.autoArgs" }}
- auto
{{ include "kamino.oneShotArgs" . }}
{{- end }}

{{- define "kamino.jobArgs" }}
{{- if .Values.job.node }}
- capture
- {{ .Values.job.node }}
{{ include "kamino.oneShotArgs" . }}
{{- if include "kamino.jobSettings" . }}
- --filename=/etc/kamino-settings/settings.yaml
{{- end }}
{{- with .Values.job.captureArgs }}
{{ toYaml . }}
{{- end }}
{{- else }}
{{- include "kamino.autoArgs" . }}
{{- end }}
{{- end }}

{{/* Spec of the Job in mode job. The Job has no ttlSecondsAfterFinished: Argo CD and Flux would create a deleted Job again,
     and the new Job would capture again. */}}
{{- define "kamino.job" }}
{{- include "kamino.jobSpec" . | trim }}
template:
  {{- include "kamino.pod" (dict "root" . "component" "job" "restartPolicy" "Never" "ports" ""
        "args" (include "kamino.jobArgs" . | trim) "resources" .Values.oneShot.resources) | nindent 2 }}
{{- end }}

{{/* Jobs are immutable, so the name has a hash of the spec. Equal values give equal names in every revision of the
     release. */}}
{{- define "kamino.jobName" -}}
{{ include "kamino.fullname" . }}-{{ printf "%s%v" (include "kamino.job" .) (.Values.job.run | default "") | sha256sum | trunc 8 }}
{{- end -}}

{{- define "kamino.jobSpec" }}
backoffLimit: {{ .Values.oneShot.backoffLimit }}
activeDeadlineSeconds: {{ .Values.oneShot.activeDeadlineSeconds }}
podFailurePolicy:
  rules:
  # Wrong usage, refused, failed, not allowed: a retry would end the same way.
  - action: FailJob
    onExitCodes:
      containerName: kamino
      operator: In
      values: [2, 3, 4, 5]
  # Evicted or drained: not a failure of the run. The next pod continues the run.
  - action: Ignore
    onPodConditions:
    - type: DisruptionTarget
{{- end }}
