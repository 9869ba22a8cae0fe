package aws

import (
	"encoding/base64"
	"net/http"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// TestConsoleOutput: the SDK reads an instance's serial console.
func TestConsoleOutput(t *testing.T) {
	c := newCloud(t, nil)
	id := sdk.ToString(c.run(t, 1, nil)[0].InstanceId)
	c.fleet.SetConsole(id, "the boot of "+id)
	out, err := c.ec2.GetConsoleOutput(t.Context(), &ec2.GetConsoleOutputInput{InstanceId: sdk.String(id), Latest: sdk.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(sdk.ToString(out.Output))
	if err != nil || string(text) != "the boot of "+id || sdk.ToString(out.InstanceId) != id || out.Timestamp == nil {
		t.Errorf("got %q of %+v (%v)", text, out, err)
	}
	_, err = c.ec2.GetConsoleOutput(t.Context(), &ec2.GetConsoleOutputInput{InstanceId: sdk.String("i-0123456789abcdef0")})
	wantCode(t, err, http.StatusBadRequest, "InvalidInstanceID.NotFound")
}
