package aws

import (
	"maps"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// tagsOf returns the tags from callers.
func tagsOf(all []types.Tag) map[string]string {
	out := map[string]string{}
	for _, t := range all {
		if key := sdk.ToString(t.Key); !ownTags[key] {
			out[key] = sdk.ToString(t.Value)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// tagOf returns the value of a tag; empty if absent.
func tagOf(all []types.Tag, key string) string {
	for _, t := range all {
		if sdk.ToString(t.Key) == key {
			return sdk.ToString(t.Value)
		}
	}
	return ""
}

// toTags merges a caller's tags with this provider's own tags, sorted by key.
func toTags(given, own map[string]string) []types.Tag {
	all := map[string]string{}
	maps.Copy(all, own)
	maps.Copy(all, given)
	var out []types.Tag
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, types.Tag{Key: sdk.String(key), Value: sdk.String(shorten(all[key], maxTagValue))})
	}
	return out
}
