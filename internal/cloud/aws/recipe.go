package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	opRecipe  = "set the recipe of"
	opRestore = "restore the recipe of"
)

// recipeTries is how often a group is pointed at a version in one call, if it shows another one afterwards.
const recipeTries = 3

// backup is what RecipeChange.Backup holds: how the group named what it was built from. A launch template keeps its versions, so that
// nothing is lost.
type backup struct {
	Pool     cloud.PoolID `json:"pool"`
	Template string       `json:"launchTemplate"`
	// Version as the group named it, and Number what that meant.
	Version string `json:"version"`
	Number  int64  `json:"number"`
	// Image as Kamino writes it.
	Image string `json:"image"`
}

// RecipeChange implements cloud.PoolProvider. User data always stays.
func (p *PoolProvider) RecipeChange(ctx context.Context, to cloud.Target, _ bool) (cloud.RecipeChange, error) {
	ref, err := parsePool(to.Pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	r, err := p.recipe(ctx, ref)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	change, err := p.changeTo(ctx, ref, r, to.Image)
	change.Version = to.Version
	return change, err
}

// changeTo is what pointing the group at an image does.
func (p *PoolProvider) changeTo(ctx context.Context, ref group, r recipe, image string) (cloud.RecipeChange, error) {
	change := cloud.RecipeChange{Pool: ref.pool(), From: r.image, To: image, Keeps: r.parts(), Refusals: refusalsOfGroup(ref, r), Done: r.builds(image)}
	if r.handedTo() != "" {
		ami, err := p.ami(ctx, opRecipe, ref, ref.region, image)
		if err != nil && !cloud.Is(err, cloud.NotFound) {
			return cloud.RecipeChange{}, err
		}
		handOver := r.handOver(ref, cmp.Or(ami, "its image")) // which may not be there yet
		change.HandOver, change.Refusals = handOver.Message, append(change.Refusals, *handOver)
	}
	running, err := p.refreshing(ctx, ref)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	if running != nil {
		change.Refusals = append(change.Refusals, *running)
	}
	saved := backup{Pool: ref.pool(), Number: r.number, Image: r.image}
	if r.spec != nil {
		saved.Template, saved.Version = sdk.ToString(r.spec.LaunchTemplateId), sdk.ToString(r.spec.Version)
	}
	change.Backup, err = json.MarshalIndent(saved, "", "  ")
	return change, fail("save the recipe of", ref, err)
}

// SetRecipe implements cloud.PoolProvider: a version of the launch template that differs in its image alone, and the group pointed at it by
// number. A group that takes whatever is newest is pinned first to what that is today: else the new version would be used as soon as it
// is there. AWS knows no condition on such a write, so that the group is read before and after it.
func (p *PoolProvider) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	ref, err := parsePool(change.Pool)
	if err != nil {
		return err
	}
	op := opRecipe
	if change.Restores != nil {
		op = opRestore
		if _, err := readBackup(ref, change.Restores.Backup); err != nil {
			return err
		}
	}
	look, ctx := ctx, cloud.WithoutReadCache(ctx)
	for try := 1; ; try++ {
		r, err := recipeToSet(look, ctx, p, ref, change.To, try)
		if err != nil {
			return err
		}
		if r.builds(change.To) {
			return nil
		}
		if err := p.maySet(look, op, ref, r, change.To); err != nil {
			return err
		}
		look = ctx // what is read from now on is read after a write
		if err := contradicts(op, ref, r, change, try); err != nil {
			return err
		}
		number, err := p.set(ctx, op, ref, r, change.To)
		if err != nil {
			return err
		}
		if is, err := isPointed(ctx, p, ref, r, number); err != nil || is {
			return err
		}
	}
}

// contradicts returns why a recipe that was read is not the one that the change was made for; nil if it is.
func contradicts(op string, ref group, r recipe, change cloud.RecipeChange, try int) error {
	switch {
	case r.data == nil && try > 1: // what this call has pointed it at
		return &cloud.Error{Kind: cloud.Unavailable, Op: op, Resource: ref.String(), Message: "AWS does not show the new version of its launch template yet: look again"}
	case r.data == nil:
		return errorOfTemplate(op, ref, r)
	case r.image != change.From && r.image != change.To:
		return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(),
			Message: fmt.Sprintf("its image is %s, not %s as when the change was made: another client changed the image", r.image, change.From)}
	case try > recipeTries:
		return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(),
			Message: fmt.Sprintf("it was pointed at %s %d times and shows %s: look for the client that puts it back", change.To, recipeTries, r.image)}
	}
	return nil
}

// isPointed reads whether the group names a version that this process has made, whose image AWS has said.
func isPointed(ctx context.Context, p *PoolProvider, ref group, r recipe, number int64) (bool, error) {
	if number == 0 {
		return false, nil
	}
	now, err := p.group(ctx, ref)
	wanted := *r.spec
	wanted.Version = sdk.String(strconv.FormatInt(number, 10))
	return err == nil && sameSpec(specOf(now), &wanted), err
}

// recipeToSet reads the group. The first read may be that of the pass's look, because set reads the group again right before the write.
// Where a version is made from the group's, AWS itself refuses if that one is gone. $Latest and $Default are always read from AWS: no
// later read would show that they mean another version now.
func recipeToSet(look, fresh context.Context, p *PoolProvider, ref group, image string, try int) (recipe, error) {
	if try == 1 && cloud.ReadCacheOf(look) != nil {
		r, err := p.recipe(look, ref)
		if err != nil || r.pinned() && r.data != nil && !r.builds(image) {
			return r, err
		}
		if r.pinned() {
			v, err := p.version(fresh, ref, *r.spec)
			if v == nil { // the template, or its version, is gone
				r.number, r.data, r.image = 0, nil, ""
			}
			return r, err
		}
	}
	return p.recipe(fresh, ref)
}

// set points a group, which is as it was read, at an image, and returns the number of the version that it has made for that; 0 if it
// has not made one.
func (p *PoolProvider) set(ctx context.Context, op string, ref group, r recipe, image string) (int64, error) {
	im, err := p.named(ctx, op, ref, ref.region, image)
	if err != nil {
		return 0, err
	}
	if !r.pinned() {
		if err := p.point(ctx, op, ref, r, r.number); err != nil || r.image == image {
			return 0, err
		}
	}
	number, err := p.withImage(ctx, op, ref, r, im, image)
	if err != nil {
		return 0, err
	}
	now, err := p.group(ctx, ref)
	if err != nil {
		return 0, err
	}
	pinned := *r.spec
	pinned.Version = sdk.String(r.text())
	if !sameSpec(specOf(now), &pinned) { // whoever calls looks again, and decides
		return 0, nil
	}
	r.group = now
	return number, p.point(ctx, op, ref, r, number)
}

// ami is AWS's ID of an image that Kamino writes. It must be there and usable.
func (a *account) ami(ctx context.Context, op string, of fmt.Stringer, in, image string) (string, error) {
	im, err := a.named(ctx, op, of, in, image)
	return sdk.ToString(im.ImageId), err
}

// named is the same, as AWS tells it.
func (a *account) named(ctx context.Context, op string, of fmt.Stringer, in, image string) (ec2types.Image, error) {
	var all []ec2types.Image
	if name, own := strings.CutPrefix(image, in+"/"); own {
		found, err := a.images(ctx, in, region(in), ec2types.Filter{Name: sdk.String("name"), Values: []string{name}})
		if err != nil {
			return ec2types.Image{}, err
		}
		all = found
	} else if im, err := a.imageByID(ctx, in, image); err != nil {
		return ec2types.Image{}, err
	} else if im != nil {
		all = append(all, *im)
	}
	for _, im := range all {
		if imageState(im) == cloud.Complete && textOf(in, im) == image {
			return im, nil
		}
	}
	return ec2types.Image{}, &cloud.Error{Kind: cloud.NotFound, Op: op, Resource: of.String(), Message: fmt.Sprintf("image %s is not there, or not available: name one that is", image)}
}

// RestoreChange implements cloud.RecipeRestorer. Nothing but the image ever leaves a recipe.
func (p *PoolProvider) RestoreChange(ctx context.Context, pool cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	ref, err := parsePool(pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	was, err := readBackup(ref, saved.Backup)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	r, err := p.recipe(ctx, ref)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	image := was.Image
	if versionOf(cloud.ImageFamily{Place: ref.region, Name: ref.name}, image) != "" { // going back to a version of the pool's own is a rollback's
		image = r.image
	}
	change, err := p.changeTo(ctx, ref, r, image)
	change.Restores = &saved
	return change, err
}

// readBackup reads what was saved of a group, and refuses what is not of this one.
func readBackup(ref group, data []byte) (backup, error) {
	var was backup
	invalid := func(message string) error {
		return &cloud.Error{Kind: cloud.Invalid, Op: opRestore, Resource: ref.String(), Message: message}
	}
	if err := json.Unmarshal(data, &was); err != nil || was.Pool == "" || was.Image == "" {
		return was, invalid("what was saved is no recipe of an Auto Scaling group")
	}
	if was.Pool != ref.pool() {
		return was, invalid("what was saved is of " + string(was.Pool))
	}
	return was, nil
}
