package budget

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 5, 23, 12, 0, 0, 0, time.UTC)

func TestWhatIsStoredIsReadAsSpent(t *testing.T) {
	limits := Limits{PerTenant: 1000, All: 5000}
	for _, tc := range []struct {
		name     string
		data     map[string]string
		wantDay  string
		want     map[string]int64 // what counts as used
		problems []string
	}{
		{name: "nothing is stored yet", wantDay: "2026-05-23"},
		{name: "today's numbers", data: map[string]string{"day": "2026-05-23", "all": "300", "tenant.acme": "200", "rest": "10"},
			wantDay: "2026-05-23", want: map[string]int64{"all": 300, "tenant.acme": 200, "rest": 10}},
		{name: "yesterday's numbers are over", data: map[string]string{"day": "2026-05-22", "all": "300", "tenant.acme": "200"}, wantDay: "2026-05-23"},
		{name: "the clock of who wrote it was ahead: its day goes on", data: map[string]string{"day": "2026-05-24", "all": "300"},
			wantDay: "2026-05-24", want: map[string]int64{"all": 300}},
		{name: "a day far ahead counts as today, or budgets would never come back", data: map[string]string{"day": "2099-01-01", "all": "300"},
			wantDay: "2026-05-23", want: map[string]int64{"all": 300}, problems: []string{`day "2099-01-01"`}},
		{name: "so does a day that is none", data: map[string]string{"day": "today", "all": "300"},
			wantDay: "2026-05-23", want: map[string]int64{"all": 300}, problems: []string{`day "today"`}},
		{name: "and one that is missing", data: map[string]string{"all": "300"}, wantDay: "2026-05-23", want: map[string]int64{"all": 300}, problems: []string{`day ""`}},
		{name: "a tenant's number that is none: as much as all have spent", data: map[string]string{"day": "2026-05-23", "all": "300", "tenant.acme": "2k"},
			wantDay: "2026-05-23", want: map[string]int64{"all": 300, "tenant.acme": 300}, problems: []string{`tenant.acme is "2k"`}},
		{name: "or all of its budget, if that is less", data: map[string]string{"day": "2026-05-23", "all": "4000", "tenant.acme": "-5"},
			wantDay: "2026-05-23", want: map[string]int64{"all": 4000, "tenant.acme": 1000}, problems: []string{`tenant.acme is "-5"`}},
		{name: "the number of all is none: what the tenants spent", data: map[string]string{"day": "2026-05-23", "all": "1e9", "tenant.acme": "200", "tenant.beta": "50"},
			wantDay: "2026-05-23", want: map[string]int64{"all": 250, "tenant.acme": 200, "tenant.beta": 50}, problems: []string{`all is "1e9"`}},
		{name: "it was deleted: the same, and no slip", data: map[string]string{"day": "2026-05-23", "tenant.acme": "200"},
			wantDay: "2026-05-23", want: map[string]int64{"all": 200, "tenant.acme": 200}},
		{name: "a number too large for sums", data: map[string]string{"day": "2026-05-23", "all": "300", "tenant.acme": "9223372036854775807"},
			wantDay: "2026-05-23", want: map[string]int64{"all": 300, "tenant.acme": 300}, problems: []string{"tenant.acme"}},
		{name: "what is no entry is left out", data: map[string]string{"day": "2026-05-23", "all": "300", "note": "5", "tenant.Not_A_Name": "5", "tenant.": "5"},
			wantDay: "2026-05-23", want: map[string]int64{"all": 300}, problems: []string{`"note"`, `"tenant.Not_A_Name"`, `"tenant."`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, problems := parse(tc.data, limits, noon)
			got := map[string]int64{}
			l.each(func(key string, a *account) {
				if a.used != a.stored || a.used != a.mark {
					t.Errorf("%s: %+v differ", key, *a)
				}
				if a.used > 0 {
					got[key] = a.used
				}
			})
			if tc.want == nil {
				tc.want = map[string]int64{}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || l.day != tc.wantDay {
				t.Errorf("day %s, used (-want +got):\n%s", l.day, diff)
			}
			said := strings.Join(problems, "\n")
			for _, want := range tc.problems {
				if !strings.Contains(said, want) {
					t.Errorf("the problems are %q, want %s", problems, want)
				}
			}
			if len(tc.problems) != len(problems) {
				t.Errorf("%d problems, want %d: %q", len(problems), len(tc.problems), problems)
			}
		})
	}
}

func TestTenantsBeyondTheBoundShareOneBudget(t *testing.T) {
	limits := Limits{PerTenant: 100_000}
	l := newLedger("2026-05-23")
	for i := range maxTenants + 2 {
		if _, err := l.hold(fmt.Sprintf("t-%d", i), 1, 60_000, limits, noon); err != nil {
			t.Fatalf("tenant %d: %v", i, err)
		}
	}
	data := l.data()
	if len(data) != maxTenants+3 || len(l.tenants) != maxTenants { // with day, all and rest
		t.Errorf("%d entries and %d tenants", len(data), len(l.tenants))
	}
	if l.rest.used != 100_000 {
		t.Errorf("the two beyond the bound have used %d of one budget", l.rest.used)
	}
	// Written by hand, more of them are read into the shared account, so that none is forgotten.
	data["tenant.zz-by-hand"] = "7"
	read, _ := parse(data, limits, noon)
	if want := read.of("t-0").used; len(read.tenants) != maxTenants || read.rest.used != l.rest.mark+7 || want != l.of("t-0").mark {
		t.Errorf("%d tenants are read, the rest as %d, t-0 as %d", len(read.tenants), read.rest.used, want)
	}
}

func TestHold(t *testing.T) {
	for _, tc := range []struct {
		name              string
		limits            Limits
		all, own          int64 // used before
		least, most       int64
		want              int64
		wantTenant        string
		wantLeft          int64
		wantMark, wantAll int64
	}{
		{name: "all that is asked for, and a block is put aside", limits: Limits{PerTenant: 400_000, All: 4_000_000}, least: 10, most: 5000, want: 5000, wantMark: 25_000, wantAll: 105_000},
		{name: "what the tenant has left", limits: Limits{PerTenant: 10_000, All: 4_000_000}, own: 7000, least: 10, most: 5000, want: 3000, wantMark: 10_000, wantAll: 103_000},
		{name: "what all have left", limits: Limits{PerTenant: 10_000, All: 50_000}, all: 49_000, least: 10, most: 5000, want: 1000, wantMark: 10_000, wantAll: 50_000},
		{name: "the last tokens exactly", limits: Limits{PerTenant: 10_000}, own: 9_990, least: 10, most: 5000, want: 10, wantMark: 10_000, wantAll: 100_010},
		{name: "less than the least is refused, by tenant", limits: Limits{PerTenant: 10_000}, own: 9_991, least: 10, most: 5000, wantTenant: "acme", wantLeft: 9},
		{name: "by all", limits: Limits{All: 10_000}, all: 9_991, least: 10, most: 5000, wantLeft: 9},
		{name: "a budget that was lowered meanwhile has nothing left, not less", limits: Limits{All: 10_000}, all: 20_000, least: 10, most: 5000, wantLeft: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLedger("2026-05-23")
			*l.all, *l.of("acme") = *spent(tc.all), *spent(tc.own)
			got, err := l.hold("acme", tc.least, tc.most, tc.limits, noon)
			var exhausted *ExhaustedError
			if errors.As(err, &exhausted) {
				if tc.want != 0 || exhausted.Tenant != tc.wantTenant || exhausted.Left != tc.wantLeft || exhausted.Back != noon.Add(12*time.Hour) {
					t.Errorf("refused: %v", err)
				}
				if l.all.used != tc.all || l.of("acme").used != tc.own {
					t.Error("a refusal took something")
				}
				return
			}
			if err != nil || got != tc.want || l.of("acme").mark != tc.wantMark || l.all.mark != tc.wantAll {
				t.Errorf("got %d (%v), marks %d and %d; want %d, %d and %d", got, err, l.of("acme").mark, l.all.mark, tc.want, tc.wantMark, tc.wantAll)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("2026-05-23", "300", "tenant.acme", "200")
	f.Add("", "-1", "tenant.", "1e5")
	f.Add("2026-05-24", "999999999999999", "rest", "999999999999999")
	f.Fuzz(func(t *testing.T, day, all, key, value string) {
		l, problems := parse(map[string]string{"day": day, "all": all, key: value}, Limits{PerTenant: 1000}, noon)
		l.each(func(key string, a *account) {
			if a.used < 0 || a.used > 2*maxTokens {
				t.Errorf("%s is %d", key, a.used)
			}
		})
		if l.day != "2026-05-23" && l.day != "2026-05-24" {
			t.Errorf("day %q", l.day)
		}
		if strings.Contains(strings.Join(problems, ""), "\n") {
			t.Errorf("problems %q", problems)
		}
	})
}
