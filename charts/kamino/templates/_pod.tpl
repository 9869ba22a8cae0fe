{{/* Pod of the Deployment, the CronJob and the Job. Parameters: root, component, restartPolicy, args (YAML, the verb
     first), resources, and ports and probes (YAML, may be empty). */}}
{{- define "kamino.pod" -}}
{{- $root := .root -}}
{{- $credentials := include "kamino.azureCredentials" $root | fromYaml -}}
metadata:
  labels:
    {{- include "kamino.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "kamino.serviceAccount" $root }}
  {{- include "kamino.pullSecrets" $root | nindent 2 }}
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- if eq $credentials.type "hostFile" }}
    # Only root can read the azure.json of the node.
    runAsUser: 0
    runAsNonRoot: false
    {{- else }}
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    runAsNonRoot: true
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  {{- include "kamino.scheduling" $root | nindent 2 }}
  containers:
  - name: kamino
    image: {{ include "kamino.image" $root | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args:
    {{- .args | nindent 4 }}
    env:
    {{- include "kamino.env" $root | nindent 4 }}
    {{- if eq $credentials.type "environment" }}
    envFrom:
    - secretRef:
        name: {{ $credentials.environment.secretName }}
    {{- end }}
    {{- with .ports }}
    {{- . | nindent 4 }}
    {{- end }}
    # The pod's status keeps the last log lines of a failed run, because the logs of a Job can be deleted early.
    terminationMessagePolicy: FallbackToLogsOnError
    resources:
      {{- toYaml .resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: ["ALL"]
    {{- with include "kamino.volumeMounts" $root | trim }}
    volumeMounts:
    {{- . | nindent 4 }}
    {{- end }}
  {{- with include "kamino.volumes" $root | trim }}
  volumes:
  {{- . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "kamino.scheduling" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $controlPlane := ne .Values.scheduleOnControlPlane "none" -}}
{{- if or $controlPlane .Values.tolerations }}
tolerations:
{{- if $controlPlane }}
- key: node-role.kubernetes.io/control-plane
  operator: Exists
  effect: NoSchedule
- key: node-role.kubernetes.io/master
  operator: Exists
  effect: NoSchedule
{{- end }}
{{- with .Values.tolerations }}
{{ toYaml . }}
{{- end }}
{{- end }}
affinity:
{{- if .Values.affinity.nodeAffinity }}
  nodeAffinity:
    {{- toYaml .Values.affinity.nodeAffinity | nindent 4 }}
{{- else }}
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - key: kubernetes.io/os
          operator: In
          values: [linux]
        {{- if eq .Values.scheduleOnControlPlane "required" }}
        - key: node-role.kubernetes.io/control-plane
          operator: Exists
        {{- end }}
    {{- if eq .Values.scheduleOnControlPlane "preferred" }}
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
        - key: node-role.kubernetes.io/control-plane
          operator: Exists
    {{- end }}
{{- end }}
{{- with .Values.affinity.podAffinity }}
  podAffinity:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- if .Values.affinity.podAntiAffinity }}
  podAntiAffinity:
    {{- toYaml .Values.affinity.podAntiAffinity | nindent 4 }}
{{- else }}
  # One drain would evict all replicas on the same node.
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "kamino.selector" . | nindent 12 }}
{{- end }}
{{- end -}}
