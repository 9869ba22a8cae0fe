package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/scrub"
)

// planted are secrets, by the place where the tests plant them.
var planted = map[string]string{
	"order token":       "tok-4f1c9a77e2",
	"customData":        base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("#cloud-config kubeadm join "), 12)),
	"bootstrap token":   "abcdef.0123456789abcdef",
	"access key":        "AKIAIOSFODNN7EXAMPLE",
	"env":               "wJalrXUtnFEMI/K7MDENG/bPxRfiCY",
	"service token":     "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJrYW1pbm8ifQ.c2lnbmF0dXJl",
	"private key":       "MIIEowIBAAKCAQEA75",
	"signed URL":        "sig=Zm9vYmFyYmF6",
	"webhook":           "T000/B000/XXXXXXXX",
	"password":          "hunter2hunter2",
	"Secret":            "in-a-secret-object",
	"user of a URL":     "kamino:s3cr3tpass",
	"secret key":        "kT3/Zr8vQmX1+pLw9HcY5uBn2JdGf6sEaR0oVi7K",
	"secret key alone":  "m9Xb2/Qe7Lr4+Wz1Ty8Kp5Vc3Hj6Nd0Gf2Sa4Uo",
	"account key":       "Zk3vT9yQx7LmB1cN5wRj8HpG2dFs6aUe4iOo0VtYrXzKqWbMnCsDfGhJ",
	"short account key": "c2hvcnQ=",
	"api key":           "sk-11fe2230",
	"short password":    "pa55w0rd",
	"escaped password":  "esc4ped-one",
	"flag's password":   "flagged-pass-1",
	"client secret":     "cl13nt-s3cret",
	"database":          "pgpass-9921",
	"GitHub token":      "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
	"map of a secret":   "inner-of-credentials",
}

// text has planted secrets as they stand in logs and messages.
var text = strings.Join([]string{
	"kubeadm join 10.0.0.1:6443 --token " + planted["bootstrap token"],
	"signed with " + planted["access key"] + ", Authorization: Bearer " + planted["service token"],
	"-----BEGIN RSA PRIVATE KEY-----\n" + planted["private key"] + "\n-----END RSA PRIVATE KEY-----",
	"GET https://disks.blob.core.windows.net/vhds/a.vhd?se=2026&" + planted["signed URL"] + " failed",
	"POST chat+https://hooks.slack.com/services/" + planted["webhook"],
	`{"password": "` + planted["password"] + `"}`,
	"customData: " + planted["customData"],
	"proxy http://" + planted["user of a URL"] + "@proxy.example.org:3128",
	"aws_secret_access_key=" + planted["secret key"],
	"secretAccessKey: " + planted["secret key"],
	"the answer was " + planted["secret key alone"] + " and no more",
	"DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + planted["account key"] + "==;EndpointSuffix=core.windows.net",
	"AccountKey=" + planted["short account key"] + "; " + planted["signed URL"] + "&sv=2026",
	"api_key=" + planted["api key"] + " apiKey: '" + planted["api key"] + "' X-Api-Key: " + planted["api key"],
	"DB_PASS=" + planted["short password"] + " MYSQL_PWD=" + planted["short password"],
	`msg="request {\"dbPassword1\": \"` + planted["escaped password"] + `\"}"`,
	"az login --client-password-value " + planted["flag's password"],
	"tokenSecretValue=" + planted["client secret"] + "&clientSecretV2=" + planted["client secret"],
	"postgres://kamino:" + planted["database"] + "@db.example.org/kamino",
	"cloning with " + planted["GitHub token"],
	"node ip-10-0-1-5 is Ready",
}, "\n")

func TestTextHasNoSecrets(t *testing.T) {
	clean := scrub.Text(text)
	for what, secret := range planted {
		if strings.Contains(clean, secret) {
			t.Errorf("%s is left:\n%s", what, clean)
		}
	}
	for _, kept := range []string{"node ip-10-0-1-5 is Ready", "disks.blob.core.windows.net/vhds/a.vhd", "proxy.example.org:3128", "hooks.slack.com"} {
		if !strings.Contains(clean, kept) {
			t.Errorf("%q is gone:\n%s", kept, clean)
		}
	}
	const id = "/subscriptions/6f1c2a34-0000-4000-8000-1234567890ab/resourceGroups/MC_Pool1_RG/providers/Microsoft.Compute/virtualMachineScaleSets/aks-Nodes1-vmss"
	const plain = id + " sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 AKSUbuntu-2204gen2containerd-202611.07.0 topologyKey: kubernetes.io/hostname " +
		"/var/lib/kubelet/plugins/RotateKubeletServerCertificate, author: someone, passed: 12345, pool nodes-pool1 builds new nodes from version 2026.11.30; image ami-0a36932aa96e034ee, uid 5f0c3f0e-8a53-4a6b-9d0e-3c1b2a4d5e6f"
	if scrub.Text(plain) != plain {
		t.Errorf("a plain line became %q", scrub.Text(plain))
	}
}

func TestObjectsHaveNoSecrets(t *testing.T) {
	clean := scrub.Object(map[string]any{"spec": map[string]any{
		"secretAccessKey": planted["secret key"], "apiKey": planted["api key"], "storage.example.org/account-key-1": planted["short account key"],
		"credentials":      map[string]any{"first": planted["map of a secret"], "more": []any{planted["map of a secret"]}, "name": "kept"},
		"imagePullSecrets": []any{map[string]any{"name": "kept"}}, "automountServiceAccountToken": true, "topologyKey": "kept",
		"args": []any{"--password", planted["flag's password"], "--token-file", "--verbose"},
	}})
	text, err := json.Marshal(clean)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"spec":{"apiKey":"REMOVED","args":["--password","REMOVED","--token-file","--verbose"],"automountServiceAccountToken":true,` +
		`"credentials":{"first":"REMOVED","more":["REMOVED"],"name":"kept"},"imagePullSecrets":[{"name":"kept"}],"secretAccessKey":"REMOVED",` +
		`"storage.example.org/account-key-1":"REMOVED","topologyKey":"kept"}}`
	if string(text) != want {
		t.Errorf("the object became\n%s, not\n%s", text, want)
	}
}

// TestBundleHasNoSecrets plants secrets in every kind of object that a bundle reads, and next to them.
func TestBundleHasNoSecrets(t *testing.T) {
	const namespace = v1alpha1.DefaultNamespace
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	order := &v1alpha1.NodeOrder{ObjectMeta: metav1.ObjectMeta{Name: "order", Namespace: v1alpha1.DefaultGeneralizeNamespace}}
	order.Spec.Token = planted["order token"]
	prototype := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.11.30", Annotations: map[string]string{
		"example.org/userData": planted["customData"], "kubectl.kubernetes.io/last-applied-configuration": text}}}
	meta := metav1.ObjectMeta{Name: "kamino-0", Namespace: namespace}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "kamino", Args: []string{text},
		Command: []string{"sh", "--db-password", planted["flag's password"]},
		Env: []corev1.EnvVar{{Name: "AWS_KEY", Value: planted["env"]}, {Name: "REF", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kept-reference"}, Key: "kept-key"}}}}}}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kamino", RestartCount: 1}}
	kube := fake.NewClientset(pod,
		&corev1.Event{ObjectMeta: meta, Message: text},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{"note": text}}},
		&corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"password": planted["Secret"]}},
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"rules": planted["Secret"]}})
	kube.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("forbidden: " + text)
	})
	source := Bundle{
		Client: clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(order, prototype).Build(), Kube: kube, Now: time.Now(),
		Namespaces: []string{namespace, v1alpha1.DefaultGeneralizeNamespace},
		Verbs:      map[string]func(context.Context) string{"doctor.txt": func(context.Context) string { return text }},
	}
	var bundle bytes.Buffer
	problems, err := source.Write(t.Context(), &bundle)
	if err != nil || len(problems) != 2 {
		t.Fatalf("problems %q, error %v", problems, err)
	}
	files := unpack(t, &bundle)
	for name, content := range files {
		for what, secret := range planted {
			if strings.Contains(content, secret) {
				t.Errorf("%s: %s is left:\n%s", name, what, content)
			}
		}
	}
	for name, part := range map[string]string{
		"prototypes.yaml": "name: pool1-2026.11.30", "nodeorders.yaml": "token: " + scrub.Removed, "nodes.yaml": "node-1",
		"doctor.txt": "is Ready", "problems.txt": "leases",
		namespace + "/pods.yaml": "name: kept-reference", namespace + "/events.yaml": "is Ready", namespace + "/logs/kamino-0-kamino.log": "fake logs",
		namespace + "/logs/kamino-0-kamino-previous.log": "fake logs", v1alpha1.DefaultGeneralizeNamespace + "/pods.yaml": "",
	} {
		if content, found := files[name]; !found || !strings.Contains(content, part) {
			t.Errorf("%s (found: %t) has no %q:\n%s", name, found, part, content)
		}
	}
	for _, action := range kube.Actions() {
		resource, verb := action.GetResource().Resource, action.GetVerb()
		if resource == "secrets" || resource == "configmaps" || verb != "list" && verb != "get" {
			t.Errorf("the bundle sends %s %s", verb, resource)
		}
	}
}

func unpack(t *testing.T, bundle io.Reader) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bundle)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "kamino-support/")] = string(content)
	}
}
