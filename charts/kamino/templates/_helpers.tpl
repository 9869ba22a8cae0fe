{{/* Base name of all objects of the release. 42 characters leave room for "-generalize" and the hash of a Job. */}}
{{- define "kamino.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 42 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kamino.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kamino.labels" -}}
{{ include "kamino.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kamino.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kamino.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the service account, or set serviceAccount.create" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "kamino.image" -}}
{{- include "kamino.imageOf" (list .Values.image .Chart) -}}
{{- end -}}

{{- define "kamino.imageOf" -}}
{{- $image := index . 0 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default (printf "v%s" (index . 1).AppVersion) $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Refuses a release over the objects of `kamino manifests`: Helm does not adopt objects of other tools. Without a
     cluster, lookup returns nothing. */}}
{{- define "kamino.refuseManifests" -}}
{{- $pods := include "kamino.generalizeNamespace" . -}}
{{- $rules := include "kamino.rules" . | fromYaml -}}
{{- range list
      (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (printf "%s-viewer" (include "kamino.fullname" .)))
      (lookup "v1" "ServiceAccount" $pods $rules.generalizeServiceAccount) }}
{{- $labels := (.metadata | default dict).labels | default dict }}
{{- if and (eq (get $labels "app.kubernetes.io/name") "kamino") (not (hasKey $labels "app.kubernetes.io/instance")) }}
{{- fail (printf (include "kamino.manifestsFound" $) .kind .metadata.name $.Release.Namespace $pods) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Refuses an upgrade while a capture of an earlier version replaces its donor by another node, or has grown a pool. lookup
     fails for a kind that the cluster does not know, as before a first installation. */}}
{{- define "kamino.refuseReplacement" -}}
{{- if .Capabilities.APIVersions.Has "kamino.dev/v1alpha1/Prototype" }}
{{- range (lookup "kamino.dev/v1alpha1" "Prototype" "" "").items }}
{{- $status := .status | default dict }}
{{- $record := $status.record | default dict }}
{{- $held := hasKey ($record.reservation | default dict) "replacement" }}
{{- if and (not (has $status.phase (list "Succeeded" "Failed"))) (or $held (and (not .spec.donor) $status.record)) }}
{{- fail (printf "prototype %s (phase %s) of an earlier version replaces a node or grows a pool, which this version never does. Nothing was changed. Upgrade after the capture has ended: kubectl get prototypes" .metadata.name $status.phase) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "kamino.manifestsFound" -}}
%s %s is of an installation by `kamino manifests`, which Helm does not take over. Nothing was changed. Delete that installation, then run the same command again. Definitions, Prototypes, policies and Secrets stay:
  kubectl delete clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding -l 'app.kubernetes.io/name=kamino,!app.kubernetes.io/instance'
  kubectl -n %s delete role,rolebinding,serviceaccount,deployment -l 'app.kubernetes.io/name=kamino,!app.kubernetes.io/instance'
  kubectl delete namespace %s
  kubectl apply --server-side --force-conflicts --field-manager=helm -f charts/kamino/crds/
{{- end -}}

{{- define "kamino.generalizeNamespace" -}}
{{- $namespace := default (printf "%s-generalize" (include "kamino.fullname" .)) .Values.generalize.namespace -}}
{{- if eq $namespace .Release.Namespace -}}
{{- fail (printf "generalize.namespace: %s is the release's own namespace; the privileged pods must have one that nothing else is in" $namespace) -}}
{{- end -}}
{{- $namespace -}}
{{- end -}}

{{/* "true" if the chart creates ValidatingAdmissionPolicies: generalize.admissionPolicy. */}}
{{- define "kamino.admissionPolicies" -}}
{{- $known := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- if or (eq .Values.generalize.admissionPolicy "always") (and (eq .Values.generalize.admissionPolicy "auto") $known) -}}
true
{{- end -}}
{{- end -}}

{{/* Rules of the roles. `make generate` writes the file from internal/manifest. */}}
{{- define "kamino.rules" -}}
{{- .Files.Get "files/rules.yaml" -}}
{{- end -}}

{{- define "kamino.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* How Kamino signs in to Azure. */}}
{{- define "kamino.azureCredentials" -}}
{{- (.Values.azure | default dict).credentials | default dict | toYaml -}}
{{- end -}}

{{/* Path of the cloud's configuration file in the container; empty without a file. */}}
{{- define "kamino.cloudConfig" -}}
{{- $credentials := include "kamino.azureCredentials" . | fromYaml -}}
{{- if eq $credentials.type "secret" -}}
/etc/kamino/{{ $credentials.secret.key }}
{{- else if eq $credentials.type "hostFile" -}}
/etc/kamino/azure.json
{{- end -}}
{{- end -}}

{{/* Secret with the kubeconfig of Cluster API's management cluster; empty without a management cluster. Reused values of
     earlier versions have no clusterAPI. */}}
{{- define "kamino.management" -}}
{{- get (get (.Values.clusterAPI | default dict) "kubeconfig" | default dict) "secretName" -}}
{{- end -}}

{{/* Secret with the URLs for notices. Only the controller sends notices. Reused values of earlier versions have no
     notify. */}}
{{- define "kamino.notices" -}}
{{- if eq .Values.mode "controller" -}}
{{- get (.Values.notify | default dict) "secretName" -}}
{{- end -}}
{{- end -}}

{{/* Flags of all modes. */}}
{{- define "kamino.args" -}}
- --namespace={{ .Release.Namespace }}
- --generalize-namespace={{ include "kamino.generalizeNamespace" . }}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
{{- with include "kamino.cloudConfig" . }}
- --cloud-config={{ . }}
{{- end }}
{{- if include "kamino.management" . }}
- --management-kubeconfig=/etc/kamino-management/{{ .Values.clusterAPI.kubeconfig.key }}
{{- end }}
- --kured={{ .Values.kured.daemonSet }}
{{- with .Values.generalize.allowedImages }}
- --allowed-images={{ join "," . }}
{{- end }}
{{- end -}}

{{- define "kamino.env" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
# The pods on nodes run this image.
- name: KAMINO_IMAGE
  value: {{ include "kamino.imageOf" (list .Values.generalize.image .Chart) | quote }}
{{- with include "kamino.azureCredentials" . | fromYaml }}
{{- if .cloud }}
- name: AZURE_ENVIRONMENT
  value: {{ .cloud }}
{{- end }}
{{- if and (eq .type "managedIdentity") .managedIdentity.clientID }}
- name: AZURE_CLIENT_ID
  value: {{ .managedIdentity.clientID | quote }}
{{- else if eq .type "workloadIdentity" }}
- name: AZURE_CLIENT_ID
  value: {{ .workloadIdentity.clientID | quote }}
- name: AZURE_TENANT_ID
  value: {{ .workloadIdentity.tenantID | quote }}
- name: AZURE_FEDERATED_TOKEN_FILE
  value: /var/run/kamino-azure/token
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kamino.volumeMounts" -}}
{{- with include "kamino.azureCredentials" . | fromYaml }}
{{- if eq .type "secret" }}
- name: cloud-config
  mountPath: /etc/kamino
  readOnly: true
{{- else if eq .type "hostFile" }}
- name: cloud-config
  mountPath: /etc/kamino/azure.json
  readOnly: true
{{- if .hostFile.stackPath }}
- name: stack-config
  mountPath: /etc/kamino/azurestackcloud.json
  readOnly: true
{{- end }}
{{- else if eq .type "workloadIdentity" }}
- name: azure-token
  mountPath: /var/run/kamino-azure
  readOnly: true
{{- end }}
{{- end }}
{{- if include "kamino.management" . }}
- name: management
  mountPath: /etc/kamino-management
  readOnly: true
{{- end }}
{{- if include "kamino.notices" . }}
- name: notify
  mountPath: /etc/kamino-notify
  readOnly: true
{{- end }}
{{- if include "kamino.jobSettings" . }}
- name: settings
  mountPath: /etc/kamino-settings
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* ConfigMap with the settings of the capture in mode job; empty without settings. The name has a hash. */}}
{{- define "kamino.jobSettings" -}}
{{- if and (eq .Values.mode "job") .Values.job.node .Values.job.settings -}}
{{ include "kamino.fullname" . }}-settings-{{ toJson .Values.job.settings | sha256sum | trunc 8 }}
{{- end -}}
{{- end -}}

{{- define "kamino.volumes" -}}
{{- with include "kamino.azureCredentials" . | fromYaml }}
{{- if eq .type "secret" }}
- name: cloud-config
  secret:
    secretName: {{ .secret.name }}
{{- else if eq .type "hostFile" }}
- name: cloud-config
  hostPath:
    path: {{ .hostFile.path }}
    type: File
{{- if .hostFile.stackPath }}
- name: stack-config
  hostPath:
    path: {{ .hostFile.stackPath }}
    type: File
{{- end }}
{{- else if eq .type "workloadIdentity" }}
- name: azure-token
  projected:
    sources:
    - serviceAccountToken:
        path: token
        audience: {{ .workloadIdentity.audience }}
        expirationSeconds: 3600
{{- end }}
{{- end }}
{{- with include "kamino.management" . }}
- name: management
  secret:
    secretName: {{ . }}
{{- end }}
{{- with include "kamino.notices" . }}
- name: notify
  secret:
    secretName: {{ . }}
{{- end }}
{{- with include "kamino.jobSettings" . }}
- name: settings
  configMap:
    name: {{ . }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
