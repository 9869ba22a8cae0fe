package aws

import (
	"context"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// useLife is how long an allowed call proves a permission.
const useLife = 5 * time.Minute

// actionPrefixes are the prefixes of IAM actions by service ID. Source: "Service Authorization Reference".
var actionPrefixes = map[string]string{"EC2": "ec2:", "Auto Scaling": "autoscaling:"}

// useLog holds the times of allowed calls, by region and IAM action.
type useLog struct {
	now func() time.Time

	mu sync.Mutex
	at map[string]time.Time
}

// layer records allowed and denied calls in a region, also dry runs.
func (u *useLog) layer(region string) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("kaminoUses",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput,
				middleware.Metadata, error) {
				out, meta, err := next.HandleInitialize(ctx, in)
				if prefix, found := actionPrefixes[awsmiddleware.GetServiceID(ctx)]; found {
					u.record(region, prefix+awsmiddleware.GetOperationName(ctx), err)
				}
				return out, meta, err
			}), middleware.After)
	}
}

// record records the answer of AWS to an action. Other errors than a denial prove nothing.
func (u *useLog) record(region, action string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err == nil, isCode(err, "DryRunOperation"):
		u.at[region+" "+action] = u.now()
	case cloud.KindOf(fail("use", text(action), err)) == cloud.Denied:
		delete(u.at, region+" "+action)
	}
}

// recent reports whether AWS recently allowed the action in the region.
func (u *useLog) recent(region, action string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, found := u.at[region+" "+action]
	return found && u.now().Sub(at) <= useLife
}
