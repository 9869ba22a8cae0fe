package aws

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// chain returns the result of the SDK's default chain in the environment, with calls to the simulated cloud.
func (c *testCloud) chain(t *testing.T, environment map[string]string) sdk.Config {
	t.Helper()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
		"AWS_REGION", "AWS_CA_BUNDLE", "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT"} {
		t.Setenv(name, environment[name])
	}
	nothing := filepath.Join(t.TempDir(), "nothing")
	t.Setenv("AWS_CONFIG_FILE", nothing)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nothing)
	config, err := awsconfig.LoadDefaultConfig(t.Context(), awsconfig.WithHTTPClient(c.client()), awsconfig.WithBaseEndpoint(c.web.URL),
		awsconfig.WithEC2IMDSRegion())
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestDefaultCredentialChain: the chain reads credentials from instance metadata, which require a session token.
func TestDefaultCredentialChain(t *testing.T) {
	c := newCloud(t, nil)
	id := *c.run(t, 1, func(in *ec2.RunInstancesInput) {
		in.UserData = sdk.String(base64.StdEncoding.EncodeToString([]byte("#cloud-config")))
	})[0].InstanceId
	metadata := httptest.NewServer(c.MetadataHandler(id, "node"))
	t.Cleanup(metadata.Close)
	config := c.chain(t, map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.URL})
	if config.Region != testRegion {
		t.Errorf("region is %q, want %s", config.Region, testRegion)
	}
	who := ok(sts.NewFromConfig(config).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}))(t)
	if want := "arn:aws:sts::" + testAccount + ":assumed-role/node/" + id; *who.Arn != want {
		t.Errorf("caller is %s, want %s", *who.Arn, want)
	}

	ask := func(method, path string, header ...string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, metadata.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(header); n += 2 {
			r.Header.Set(header[n], header[n+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	const path, ttl, with = "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"
	_, token := ask(http.MethodPut, path, ttl, "60")
	for name, try := range map[string]struct {
		status int
		want   string
		got    func() (int, string)
	}{
		"without a token":    {401, "401", func() (int, string) { return ask(http.MethodGet, "/latest/meta-data/instance-id") }},
		"with another's":     {401, "401", func() (int, string) { return ask(http.MethodGet, "/latest/meta-data/instance-id", with, "x") }},
		"without a lifetime": {400, "400", func() (int, string) { return ask(http.MethodPut, path) }},
		"through a proxy":    {403, "403", func() (int, string) { return ask(http.MethodPut, path, ttl, "60", "X-Forwarded-For", "10.0.0.1") }},
		"who it is":          {200, id, func() (int, string) { return ask(http.MethodGet, "/latest/meta-data/instance-id", with, token) }},
		"user data":          {200, "#cloud-config", func() (int, string) { return ask(http.MethodGet, "/latest/user-data", with, token) }},
		"a list": {200, "availability-zone\nregion",
			func() (int, string) { return ask(http.MethodGet, "/latest/meta-data/placement/", with, token) }},
		"nothing there": {404, "404", func() (int, string) {
			return ask(http.MethodGet, "/latest/meta-data/spot/instance-action", with, token)
		}},
	} {
		if status, body := try.got(); status != try.status || !strings.HasPrefix(body, try.want) {
			t.Errorf("%s: %d %q, want %d %q", name, status, body, try.status, try.want)
		}
	}
}

// issuer returns a function that creates tokens, and a file with the public key.
func issuer(t *testing.T) (file string, token func(claims map[string]any) string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "issuer.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, func(claims map[string]any) string {
		data, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		b64 := base64.RawURLEncoding
		body := b64.EncodeToString([]byte(`{"alg":"ES256"}`)) + "." + b64.EncodeToString(data)
		sum := sha256.Sum256([]byte(body))
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return body + "." + b64.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
	}
}

// TestServiceAccountToken: a service account token gives the credentials of a role that trusts the issuer.
func TestServiceAccountToken(t *testing.T) {
	keys, token := issuer(t)
	c := newCloud(t, func(c *Config) {
		c.Roles = append(c.Roles,
			Role{Name: "kamino", Federated: []Federation{{Issuer: "https://oidc", Subject: "system:serviceaccount:kamino-system:kamino", KeyFile: keys}}})
	})
	claims := map[string]any{"iss": "https://oidc", "sub": "system:serviceaccount:kamino-system:kamino", "aud": "sts.amazonaws.com",
		"exp": time.Now().Unix() + 600}
	try := func(change string, value any) error {
		all := map[string]any{}
		for k, v := range claims {
			all[k] = v
		}
		if change != "" {
			all[change] = value
		}
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token(all)), 0o600); err != nil {
			t.Fatal(err)
		}
		config := c.chain(t, map[string]string{"AWS_REGION": testRegion, "AWS_WEB_IDENTITY_TOKEN_FILE": file,
			"AWS_ROLE_ARN": "arn:aws:iam::" + testAccount + ":role/kamino", "AWS_EC2_METADATA_DISABLED": "true"})
		config.Retryer = func() sdk.Retryer { return sdk.NopRetryer{} }
		out, err := sts.NewFromConfig(config).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
		if err == nil && !strings.HasPrefix(*out.Arn, "arn:aws:sts::"+testAccount+":assumed-role/kamino/") {
			t.Errorf("caller is %s", *out.Arn)
		}
		return err
	}
	if err := try("", nil); err != nil {
		t.Fatal(err)
	}
	for change, wrong := range map[string]struct {
		value any
		code  string
	}{"sub": {"system:serviceaccount:default:default", "AccessDenied"}, "aud": {"else", "InvalidIdentityToken"},
		"exp": {time.Now().Unix() - 1, "ExpiredTokenException"}} {
		if err := try(change, wrong.value); err == nil || !strings.Contains(err.Error(), wrong.code) {
			t.Errorf("%s: %v, want %s", change, err, wrong.code)
		}
	}
}

// TestPoliciesAreSimulated checks the decision of a simulation for each kind of policy.
func TestPoliciesAreSimulated(t *testing.T) {
	c := newCloud(t, nil)
	for action, by := range map[string]string{"autoscaling:EnterStandby": "", "autoscaling:ExitStandby": "boundary", "autoscaling:SetDesiredCapacity": "scp"} {
		if _, err := c.AddFault(fault.Fault{Deny: action, Code: by}); err != nil {
			t.Fatal(err)
		}
	}
	simulate := func(source string) (int, string) {
		body := "Action=SimulatePrincipalPolicy&Version=2010-05-08&PolicySourceArn=" + source + "&ActionNames.member.1=autoscaling%3AEnterStandby" +
			"&ActionNames.member.2=autoscaling%3AExitStandby&ActionNames.member.3=autoscaling%3ASetDesiredCapacity&ActionNames.member.4=ec2%3ARunInstances"
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.web.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		keys := sdk.Credentials{AccessKeyID: testKey, SecretAccessKey: c.config.Users[0].Secret}
		if err := signer.NewSigner().SignHTTP(t.Context(), keys, r, sum(body), "iam", "us-east-1", time.Now()); err != nil {
			t.Fatal(err)
		}
		resp, err := c.web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(data)
	}
	status, body := simulate("arn:aws:iam::" + testAccount + ":user/kamino")
	for action, want := range map[string]string{
		"autoscaling:EnterStandby": "implicitDeny", "autoscaling:ExitStandby": "explicitDeny", "autoscaling:SetDesiredCapacity": "explicitDeny",
		"ec2:RunInstances": "allowed",
	} {
		if text := "<EvalActionName>" + action + "</EvalActionName><EvalResourceName>*</EvalResourceName><EvalDecision>" + want +
			"</EvalDecision>"; status != 200 || !strings.Contains(body, text) {
			t.Errorf("%s is not %s in %d %s", action, want, status, body)
		}
	}
	for _, part := range []string{
		"<AllowedByOrganizations>false</AllowedByOrganizations>", "<AllowedByPermissionsBoundary>false</AllowedByPermissionsBoundary>",
	} {
		if strings.Count(body, part) != 1 {
			t.Errorf("%s is not once in %s", part, body)
		}
	}
	if status, body := simulate("arn:aws:iam::" + testAccount + ":user/nobody"); status != http.StatusNotFound || !strings.Contains(body, "NoSuchEntity") {
		t.Errorf("for an unknown user: %d %s", status, body)
	}
}

func sum(body string) string {
	digest := sha256.Sum256([]byte(body))
	return hex.EncodeToString(digest[:])
}
