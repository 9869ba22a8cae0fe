// Package aws checks on a real AWS account what the product and its simulation assume of AWS.
package aws

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// Cloud is AWS.
func Cloud() *realcloud.Cloud {
	var permissions []string
	for _, action := range slices.Sorted(maps.Keys(rules)) {
		permissions = append(permissions, rules[action].permission(action))
	}
	return &realcloud.Cloud{Name: "aws", Page: "aws.md", Place: "AWS region", Assumptions: assumptions(), Unchecked: unchecked, Price: prices,
		MaxCalls: maxCalls, Permissions: permissions, Connect: connect, Policy: policyOf, Simulate: func(policy string) (*realcloud.Account, func(), error) {
			s, err := simulate(policy)
			if err != nil {
				return nil, nil, err
			}
			return s.account(), s.close, nil
		}}
}

// connect opens the account of the environment's credential.
func connect(ctx context.Context, region string) (*realcloud.Account, error) {
	var with []func(*config.LoadOptions) error
	if region != "" {
		with = append(with, config.WithRegion(region))
	}
	loaded, err := config.LoadDefaultConfig(ctx, with...)
	if err != nil {
		return nil, err
	}
	if loaded.Region == "" {
		return nil, errors.New("no region is set; use --region or AWS_REGION")
	}
	if loaded.HTTPClient == nil {
		loaded.HTTPClient = http.DefaultClient
	}
	return realcloud.Real(accountOf(loaded)), nil
}

// accountOf is an account without its time.
func accountOf(config sdk.Config) *realcloud.Account {
	return &realcloud.Account{Region: config.Region, Transport: config.HTTPClient,
		Open: func(c *realcloud.Course) (realcloud.Session, error) { return open(config, c), nil }}
}

// prices of AWS.
var prices = realcloud.Price{From: "AWS's lists of November 2026", Pages: []string{"https://aws.amazon.com/ec2/pricing/on-demand/",
	"https://aws.amazon.com/ebs/pricing/"}, Items: func(hours float64) []realcloud.Item {
	return []realcloud.Item{
		{What: "the group, " + smallType, Dollars: 0.0075, Unit: "instance-hour", Most: maxGroup * hours},
		{What: "two beside it, " + oldType + " or " + smallType, Dollars: 0.0095, Unit: "instance-hour", Most: 2 * hours},
		{What: "disks and volumes, gp3", Dollars: 0.15 * realcloud.GiBHour, Unit: "GiB-hour", Most: (maxGroup + 2 + 3) * maxSize * hours},
		{What: "snapshots", Dollars: 0.08 * realcloud.GiBHour, Unit: "GiB-hour", Most: 2 * maxSize * hours},
		{What: "network without a gateway", Unit: "hour", Most: hours},
		{What: "API requests", Unit: "request", Most: maxCalls},
	}
}}
