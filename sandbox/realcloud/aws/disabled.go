package aws

import (
	"context"
	"errors"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// disabledImage is what a disabled image did.
type disabledImage struct{ listed, changed string }

// disableImage disables the image of the run, looks for it, changes it, and deregisters it. Once in a session.
func (s *session) disableImage(ctx context.Context) (*disabledImage, error) {
	if s.disabled != nil {
		return s.disabled, nil
	}
	found, err := s.images(ctx)
	if err == nil && len(found) == 0 { // an interrupted run has deregistered it
		if _, err = s.uefiVariables(ctx); err == nil {
			found, err = s.images(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("the run has no image")
	}
	id := sdk.ToString(found[0].ImageId)
	if _, err := s.ec2.DisableImage(ctx, &ec2.DisableImageInput{ImageId: sdk.String(id)}); err != nil {
		return nil, err
	}
	if err := s.Until(ctx, "a disabled image", realcloud.LookFor, func() (bool, error) {
		found, err := s.images(ctx)
		return len(found) > 0 && found[0].State == types.ImageStateDisabled, err
	}); err != nil {
		return nil, err
	}
	out := &disabledImage{}
	if out.listed, err = listsOf(ctx, s, id); err != nil {
		return nil, err
	}
	if out.changed, err = s.changeDisabled(ctx, id); err != nil {
		return nil, err
	}
	s.disabled = out
	return out, nil
}

// listsOf says which lists without IncludeDisabled have an image.
func listsOf(ctx context.Context, s *session, id string) (string, error) {
	var in []string
	for name, list := range map[string]*ec2.DescribeImagesInput{
		"by its ID": {ImageIds: []string{id}}, "of the account's images": {Owners: []string{"self"}, Filters: s.ours()},
	} {
		out, err := s.ec2.DescribeImages(ctx, list)
		if err != nil && !strings.HasPrefix(code(err), "InvalidAMIID") {
			return "", err
		}
		if err == nil && len(out.Images) > 0 {
			in = append(in, name)
		}
	}
	switch len(in) {
	case 0:
		return "in no list", nil
	case 1:
		return "in the list " + in[0], nil
	}
	return "in all lists", nil
}

// changeDisabled tags a disabled image, disables it again, and deregisters it.
func (s *session) changeDisabled(ctx context.Context, id string) (string, error) {
	_, tagged := s.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: s.tagged(types.ResourceTypeImage)[0].Tags})
	_, again := s.ec2.DisableImage(ctx, &ec2.DisableImageInput{ImageId: sdk.String(id)})
	_, gone := s.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: sdk.String(id)})
	for _, step := range []struct {
		what string
		err  error
	}{{"the tag", tagged}, {"a second time", again}, {"the deregistration", gone}} {
		switch {
		case code(step.err) != "":
			return step.what + " refused: " + code(step.err), nil
		case step.err != nil:
			return "", step.err
		}
	}
	err := s.Until(ctx, "the end of a disabled image", realcloud.LookFor, func() (bool, error) {
		found, err := s.images(ctx)
		return len(found) == 0, err
	})
	return "tagged, disabled again, deregistered", err
}

func (s *session) disabledListed(ctx context.Context) (string, error) {
	d, err := s.disableImage(ctx)
	if err != nil {
		return "", err
	}
	return d.listed, nil
}

func (s *session) disabledChanged(ctx context.Context) (string, error) {
	d, err := s.disableImage(ctx)
	if err != nil {
		return "", err
	}
	return d.changed, nil
}
