package nodeadm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// TestUserData: nodes get the cluster of the recipe's user data. User data without a cluster is refused.
func TestUserData(t *testing.T) {
	want := Cluster{Name: "sandbox", Endpoint: "https://127.0.0.1:6443", Authority: []byte("-----BEGIN CERTIFICATE-----\n"), CIDR: "10.0.0.0/24"}
	text, err := want.UserData()
	if err != nil {
		t.Fatal(err)
	}
	got, err := clusterIn(text)
	if err != nil || got.Name != want.Name || got.Endpoint != want.Endpoint || !bytes.Equal(got.Authority, want.Authority) || got.CIDR != want.CIDR {
		t.Errorf("got %+v, %v", got, err)
	}
	if orders, err := disk.ReadOrders(text); err != nil || orders.Bootstrap || len(orders.Files) > 0 {
		t.Errorf("cloud-init does something: %+v, %v", orders, err)
	}
	for _, text := range []string{"", "#!/bin/bash\n", "--//\nContent-Type: application/node.eks.aws\n\n[", strings.Replace(text, "name: sandbox", "name: ''", 1)} {
		if got, err := clusterIn(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestNetwork: a disk with the network card of a different machine gets no network, and existing files stay.
func TestNetwork(t *testing.T) {
	root := t.TempDir()
	own := instance{mac: "02:00:00:00:00:01"}
	for range 2 {
		if err := network(root, own); err != nil {
			t.Error(err)
		}
	}
	if err := network(root, instance{mac: "02:00:00:00:00:02"}); err == nil {
		t.Error("a copy of the disk has a network")
	}
}

// TestNodeName: the flags on the disk contain the name.
func TestNodeName(t *testing.T) {
	root := t.TempDir()
	if got := NodeName(root); got != "" {
		t.Errorf("without flags: %q", got)
	}
	if err := writeFiles(root, Cluster{Name: "sandbox"}, kubeletSettings{}, instance{id: "i-1", name: "ip-10-0-0-1.eu-central-1.compute.internal", zone: "eu-central-1a"}); err != nil {
		t.Fatal(err)
	}
	if got := NodeName(root); got != "ip-10-0-0-1.eu-central-1.compute.internal" {
		t.Errorf("got %q", got)
	}
	if text, err := os.ReadFile(filepath.Join(root, "etc/kubernetes/kubelet/config.json")); err != nil || !strings.Contains(string(text), "aws:///eu-central-1a/i-1") {
		t.Errorf("the kubelet's settings are %s, %v", text, err)
	}
}

// cloud is a simulated STS over HTTPS, with a user's credentials.
func cloud(t *testing.T) (*httptest.Server, sdk.Config) {
	t.Helper()
	server, err := aws.New(aws.Config{
		Dir: t.TempDir(), Clock: clock.Clock{Scale: 1}, Fleet: fleet.NewMemory(), Account: "123456789012", Region: "eu-central-1", Roles: []aws.Role{{Name: "nodes"}, {Name: "others"}},
		Users: []aws.User{{Name: "another-user", KeyID: "AKIAIOSFODNN7EXAMPLE", Secret: "not a secret"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	web := httptest.NewTLSServer(server.Handler())
	t.Cleanup(web.Close)
	return web, sdk.Config{Region: "eu-central-1", BaseEndpoint: sdk.String(web.URL), HTTPClient: web.Client(), Credentials: credentials.NewStaticCredentialsProvider("AKIAIOSFODNN7EXAMPLE", "not a secret", "")}
}

// as returns the same configuration with a session of a role, like an instance.
func as(t *testing.T, config sdk.Config, role, session string) sdk.Config {
	t.Helper()
	out, err := sts.NewFromConfig(config).AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: sdk.String("arn:aws:iam::123456789012:role/" + role), RoleSessionName: sdk.String(session)})
	if err != nil {
		t.Fatal(err)
	}
	c := out.Credentials
	config.Credentials = credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
	return config
}

// TestAuthenticator: STS decides who is a node of this cluster. All others are refused.
func TestAuthenticator(t *testing.T) {
	web, user := cloud(t)
	node := as(t, user, "nodes", "i-0123456789abcdef0")
	token := func(config sdk.Config, cluster string) string {
		got, err := Token(t.Context(), config, cluster)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	// presigned is a token of another request.
	presigned := func(sign func(*sts.PresignClient) (string, error)) string {
		address, err := sign(sts.NewPresignClient(sts.NewFromConfig(node)))
		if err != nil {
			t.Fatal(err)
		}
		return tokenPrefix + encode.EncodeToString([]byte(address))
	}
	elsewhere := node
	elsewhere.BaseEndpoint = sdk.String("https://sts.example")
	a := &Authenticator{Cluster: "sandbox", Role: "nodes", STS: web.URL, Client: web.Client(), Name: func(_ context.Context, id string) (string, error) {
		if id != "i-0123456789abcdef0" {
			return "", errors.New("there is no such instance")
		}
		return "ip-10-0-0-1", nil
	}}
	for name, c := range map[string]struct{ token, user, says string }{
		"a node":                {token(node, "sandbox"), "system:node:ip-10-0-0-1", ""},
		"of another cluster":    {token(node, "other"), "", "STS answers 403"},
		"of another role":       {token(as(t, user, "others", "i-0123456789abcdef0"), "sandbox"), "", "has no identity in this cluster"},
		"an instance that went": {token(as(t, user, "nodes", "i-0fffffffffffffff0"), "sandbox"), "", "no such instance"},
		"a user":                {token(user, "sandbox"), "", "has no identity in this cluster"},
		"another server":        {token(elsewhere, "sandbox"), "", "not for STS"},
		"for no cluster": {presigned(func(c *sts.PresignClient) (string, error) {
			r, err := c.PresignGetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
			return r.URL, err
		}), "", "for no cluster"},
		"another request": {presigned(func(c *sts.PresignClient) (string, error) {
			r, err := c.PresignAssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: sdk.String("arn:aws:iam::123456789012:role/nodes"), RoleSessionName: sdk.String("i-0123456789abcdef0")}, func(o *sts.PresignOptions) {
				o.ClientOptions = append(o.ClientOptions, sts.WithAPIOptions(smithyhttp.SetHeaderValue(clusterHeader, "sandbox")))
			})
			return r.URL, err
		}), "", "another action"},
		"nothing":    {"", "", "does not begin"},
		"no text":    {tokenPrefix + "!", "", "cannot be read"},
		"no address": {tokenPrefix + encode.EncodeToString([]byte("https://[")), "", "no address"},
	} {
		body, err := json.Marshal(authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: c.token}})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body)))
		var got authenticationv1.TokenReview
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Status.Authenticated != (c.user != "") || got.Status.User.Username != c.user || !strings.Contains(got.Status.Error, c.says) {
			t.Errorf("%s: %+v, want %q because %q", name, got.Status, c.user, c.says)
		}
		if c.token != "" && strings.Contains(w.Body.String(), c.token) {
			t.Errorf("%s: the token is sent back", name)
		}
	}
}
