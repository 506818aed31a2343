package budget

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Keys of the ConfigMap. The numbers are tokens.
const (
	keyDay    = "day"     // as in 2026-05-23, UTC
	keyAll    = "all"     // of all tenants
	keyRest   = "rest"    // of the tenants beyond maxTenants, which share one budget
	keyTenant = "tenant." // and the tenant's namespace
)

const (
	// maxTenants bounds the tenants with an account of their own, so that the ConfigMap stays below 100 KiB.
	maxTenants = 1000
	// maxTokens bounds a number that is read, so that sums cannot overflow.
	maxTokens = 1_000_000_000_000_000
	// minBlock and maxBlock bound what is stored as spent ahead of the calls: a twentieth of the budget in between. A
	// call seldom costs more than 5,000, so that a block covers several runs, and a crash wastes a block at most.
	minBlock, maxBlock = 10_000, 100_000
)

// account is what one payer has spent of a day, in tokens.
type account struct {
	used   int64 // spent, or held for calls under way
	mark   int64 // what the next write stores
	stored int64 // what is stored: a call begins only when this is used at least
}

// left returns how much of a budget is left.
func (a *account) left(limit int64) int64 {
	if limit <= 0 {
		return maxTokens
	}
	return max(limit-a.used, 0)
}

// raise puts the mark a block above what is used, if more is used than is stored.
func (a *account) raise(limit int64) {
	if a.used <= a.stored {
		return
	}
	block := int64(maxBlock)
	if limit > 0 {
		block = min(max(limit/20, minBlock), maxBlock)
	}
	a.mark = max(a.mark, a.used+block)
	if limit > 0 {
		a.mark = max(a.used, min(a.mark, limit))
	}
}

// add takes over what another manager has stored since.
func (a *account) add(theirs int64) {
	if news := theirs - a.stored; news > 0 {
		a.used, a.stored, a.mark = a.used+news, theirs, max(a.mark, theirs)
	}
}

// ledger is the accounts of one day.
type ledger struct {
	day     string
	all     *account
	rest    *account
	tenants map[string]*account
}

func newLedger(day string) *ledger {
	return &ledger{day: day, all: &account{}, rest: &account{}, tenants: map[string]*account{}}
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// nextDay returns when the day after now begins.
func nextDay(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) }

// of returns the account of a tenant.
func (l *ledger) of(tenant string) *account {
	if a := l.tenants[tenant]; a != nil {
		return a
	}
	if len(l.tenants) >= maxTenants {
		return l.rest
	}
	l.tenants[tenant] = &account{}
	return l.tenants[tenant]
}

// each calls f with every account and its key.
func (l *ledger) each(f func(key string, a *account)) {
	f(keyAll, l.all)
	f(keyRest, l.rest)
	for tenant, a := range l.tenants {
		f(keyTenant+tenant, a)
	}
}

// hold takes up to most tokens for a call of a tenant, and no less than least.
func (l *ledger) hold(tenant string, least, most int64, limits Limits, now time.Time) (int64, error) {
	own := l.of(tenant)
	ofAll, ofOwn := l.all.left(limits.All), own.left(limits.PerTenant)
	if ofOwn < least {
		return 0, &ExhaustedError{Tenant: tenant, Limit: limits.PerTenant, Left: ofOwn, Asked: least, Back: nextDay(now)}
	}
	if ofAll < least {
		return 0, &ExhaustedError{Limit: limits.All, Left: ofAll, Asked: least, Back: nextDay(now)}
	}
	granted := min(most, ofAll, ofOwn)
	l.all.used += granted
	own.used += granted
	l.all.raise(limits.All)
	own.raise(limits.PerTenant)
	return granted, nil
}

// data returns what is stored of the accounts.
func (l *ledger) data() map[string]string {
	data := map[string]string{keyDay: l.day}
	l.each(func(key string, a *account) {
		if a.mark > 0 {
			data[key] = strconv.FormatInt(a.mark, 10)
		}
	})
	return data
}

// wrote says that data is stored now.
func (l *ledger) wrote() { l.each(func(_ string, a *account) { a.stored = a.mark }) }

// merge takes over what another manager has stored meanwhile. A later day than ours replaces all, an earlier one nothing.
func (l *ledger) merge(theirs *ledger) *ledger {
	switch {
	case theirs.day > l.day:
		return theirs
	case theirs.day < l.day:
		return l
	}
	l.all.add(theirs.all.stored)
	l.rest.add(theirs.rest.stored)
	for tenant, a := range theirs.tenants {
		l.of(tenant).add(a.stored)
	}
	return l
}

// parse reads what is stored. All of it counts as spent. What cannot be read counts as the most that it can have been,
// and is told as a problem: nothing that was spent is forgotten because of a slip of the hand.
func parse(data map[string]string, limits Limits, now time.Time) (l *ledger, problems []string) {
	l = newLedger(dayOf(now))
	if len(data) == 0 {
		return l, nil
	}
	_, err := time.Parse(time.DateOnly, data[keyDay])
	switch day := data[keyDay]; {
	case err != nil || day > dayOf(nextDay(now)):
		problems = append(problems, fmt.Sprintf("day %.40q is none of these days: the numbers count for today", day))
	case day < l.day:
		return l, nil
	default:
		l.day = day // Another manager's clock may be a little ahead. A day never ends twice.
	}
	unreadable := l.read(data, &problems)
	sum := l.rest.stored
	for _, a := range l.tenants {
		sum += a.stored
	}
	all, ok := number(data[keyAll])
	if !ok {
		if data[keyAll] != "" {
			problems = append(problems, fmt.Sprintf("all is %.40q, no number of tokens: the sum of the tenants counts", data[keyAll]))
		}
		all = sum
	}
	l.all = spent(all)
	for _, a := range unreadable {
		most := all
		if limits.PerTenant > 0 {
			most = min(most, limits.PerTenant)
		}
		*a = *spent(max(a.stored, most))
	}
	return l, problems
}

// read reads the accounts of tenants in the order of their names, and returns those whose number cannot be read.
func (l *ledger) read(data map[string]string, problems *[]string) (unreadable []*account) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		tenant, isTenant := strings.CutPrefix(key, keyTenant)
		switch {
		case key == keyDay || key == keyAll:
			continue
		case key != keyRest && (!isTenant || len(validation.IsDNS1123Label(tenant)) > 0):
			*problems = append(*problems, fmt.Sprintf("entry %.80q means nothing and is removed", key))
			continue
		}
		a := l.rest
		if isTenant {
			a = l.of(tenant)
		}
		tokens, ok := number(data[key])
		if !ok {
			*problems = append(*problems, fmt.Sprintf("%s is %.40q, no number of tokens: as much counts as can have been spent", key, data[key]))
			unreadable = append(unreadable, a)
		}
		*a = *spent(min(a.stored+tokens, maxTokens))
	}
	return unreadable
}

// spent returns an account of which so much is stored, all of which counts as used.
func spent(tokens int64) *account { return &account{used: tokens, mark: tokens, stored: tokens} }

func number(s string) (tokens int64, ok bool) {
	tokens, err := strconv.ParseInt(s, 10, 64)
	if err != nil || tokens < 0 || tokens > maxTokens {
		return 0, false
	}
	return tokens, true
}
