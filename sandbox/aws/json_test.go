package aws

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// TestServicesInJSON sends requests of services that speak JSON. Answers and errors are JSON, and errors have the type in the
// body and in a header.
func TestServicesInJSON(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.Parameters = map[string]string{"/image": "ami-1"} })
	if _, err := c.AddFault(fault.Fault{Name: "denied", Deny: "ssm:GetParameter"}); err != nil {
		t.Fatal(err)
	}
	secret := c.config.Users[0].Secret
	for _, test := range []struct {
		name, key, secret, service, target, body string
		status                                   int
		// want is the type of the error; empty for none.
		want string
	}{
		{"denied", testKey, secret, "ssm", "AmazonSSM.GetParameter", `{"Name":"/image"}`, 400, "AccessDeniedException"},
		{"parameter", testKey, secret, "ssm", "AmazonSSM.GetParameter", `{"Name":"/image","WithDecryption":true}`, 200, ""},
		{"no parameter", testKey, secret, "ssm", "AmazonSSM.GetParameter", `{"Name":"/other"}`, 400, "ParameterNotFound"},
		{"unknown member", testKey, secret, "ssm", "AmazonSSM.GetParameter", `{"Name":"/image","Color":1}`, 400, "ValidationException"},
		{"no JSON", testKey, secret, "ssm", "AmazonSSM.GetParameter", `Name=image`, 400, "SerializationException"},
		{"new, without a type", testKey, secret, "ssm", "AmazonSSM.PutParameter", `{"Name":"/new","Value":"ami-2","Overwrite":true}`, 400, "ValidationException"},
		{"there, without overwrite", testKey, secret, "ssm", "AmazonSSM.PutParameter", `{"Name":"/image","Value":"ami-2"}`, 400, "ParameterAlreadyExists"},
		{"there", testKey, secret, "ssm", "AmazonSSM.PutParameter", `{"Name":"/image","Value":"ami-1","Overwrite":true}`, 200, ""},
		{"unknown operation", testKey, secret, "ssm", "AmazonSSM.LabelParameterVersion", `{}`, 400, "UnknownOperationException"},
		{"unknown service", testKey, secret, "servicequotas", "ServiceQuotasV20190624.GetServiceQuota", `{}`, 400, "UnknownOperationException"},
		{"no list of clusters", testKey, secret, "eks", "GET /clusters", "", 400, "UnknownOperationException"},
		{"no node groups", testKey, secret, "eks", "GET /clusters/c/node-groups", "", 400, "UnknownOperationException"},
		{"wrong secret", testKey, "guessed", "ssm", "AmazonSSM.GetParameter", `{"Name":"/image"}`, 400, "InvalidSignatureException"},
		{"unknown key", "AKIANOBODY", secret, "ssm", "AmazonSSM.GetParameter", `{"Name":"/image"}`, 400, "UnrecognizedClientException"},
	} {
		method, path, isPath := strings.Cut(test.target, " ") // EKS has paths for targets
		if !isPath {
			method, path = http.MethodPost, ""
		}
		r, err := http.NewRequestWithContext(t.Context(), method, c.web.URL+path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if test.body != "" {
			r.Header.Set("Content-Type", "application/x-amz-json-1.1")
		}
		if !isPath {
			r.Header.Set("X-Amz-Target", test.target)
		}
		if err := signer.NewSigner().SignHTTP(t.Context(), sdk.Credentials{AccessKeyID: test.key, SecretAccessKey: test.secret}, r, sum(test.body),
			test.service, testRegion, time.Now()); err != nil {
			t.Fatal(err)
		}
		resp, err := c.web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			Type      string `json:"__type"`
			Message   string `json:"message"`
			Parameter struct{ Value string }
		}
		err = json.NewDecoder(resp.Body).Decode(&out)
		_ = resp.Body.Close()
		kind, isJSON := resp.Header.Get("X-Amzn-Errortype"), strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-amz-json")
		if err != nil || !isJSON || resp.StatusCode != test.status || out.Type != test.want || kind != test.want || (out.Message == "") != (test.want == "") {
			t.Errorf("%s: status %d, header %q, %+v, %v; want %d %q", test.name, resp.StatusCode, kind, out, err, test.status, test.want)
		}
		if test.want == "" && strings.HasSuffix(test.target, ".GetParameter") && out.Parameter.Value != "ami-1" {
			t.Errorf("%s: %+v", test.name, out)
		}
		if err := c.ClearFaults("denied"); err != nil && test.name == "denied" {
			t.Fatal(err)
		}
	}
}

// TestForgottenParameters: the simulation refuses a parameter that it does not read, and changes nothing.
func TestForgottenParameters(t *testing.T) {
	c := newCloud(t, nil)
	id := *c.run(t, 1, nil)[0].InstanceId
	_, err := c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}, Hibernate: sdk.Bool(true)})
	wantCode(t, err, refused, "UnknownParameter")
	if err == nil || !strings.Contains(err.Error(), "Hibernate") {
		t.Errorf("the parameter is not named: %v", err)
	}
	c.wantState(t, id, "running")
	_, err = c.ec2.DescribeAvailabilityZones(t.Context(), &ec2.DescribeAvailabilityZonesInput{AllAvailabilityZones: sdk.Bool(true)})
	wantCode(t, err, refused, "UnknownParameter")
	c.group(t, 1, nil)
	_, err = c.asg.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(testGroup), DesiredCapacity: sdk.Int32(1), HonorCooldown: sdk.Bool(true)})
	if err != nil {
		t.Errorf("a parameter without an effect: %v", err)
	}
	_, err = c.asg.StartInstanceRefresh(t.Context(),
		&autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(testGroup), Strategy: "ReplaceRootVolume"})
	wantCode(t, err, refused, "ValidationError")
	status, answer := c.sendSigned(t, "autoscaling", "Action=DescribeAutoScalingGroups&Version=2011-01-01&Color=red")
	if status != refused || !strings.Contains(answer, "Color") {
		t.Errorf("%d %s", status, answer)
	}
}

// TestDecodedDenial reads the policy's decision from the message of a denial.
func TestDecodedDenial(t *testing.T) {
	c := newCloud(t, nil)
	if _, err := c.AddFault(fault.Fault{Deny: "ec2:StopInstances"}); err != nil {
		t.Fatal(err)
	}
	_, err := c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{"i-1"}})
	if err == nil {
		t.Fatal("the stop was not denied")
	}
	_, message, _ := strings.Cut(err.Error(), "Encoded authorization failure message: ")
	out := ok(c.sts.DecodeAuthorizationMessage(t.Context(), &sts.DecodeAuthorizationMessageInput{EncodedMessage: sdk.String(strings.TrimSpace(message))}))(t)
	if text := sdk.ToString(out.DecodedMessage); !strings.Contains(text, `"action":"ec2:StopInstances"`) || !strings.Contains(text, `"allowed":false`) {
		t.Errorf("the message is %s", text)
	}
	_, err = c.sts.DecodeAuthorizationMessage(t.Context(), &sts.DecodeAuthorizationMessageInput{EncodedMessage: sdk.String("guessed")})
	wantCode(t, err, refused, "InvalidAuthorizationMessageException")
}
